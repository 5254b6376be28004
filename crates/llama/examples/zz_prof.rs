use assize_llama::*; use assize_providers::*;
fn main(){ let a:Vec<String>=std::env::args().collect(); let n:u32=a[1].parse().unwrap(); let fast=a[2]=="fast"; let mt:u32=a[3].parse().unwrap(); let reps:u32=a[4].parse().unwrap(); let model=&a[5];
 let dir=std::path::PathBuf::from(std::env::var("HOME").unwrap()).join(".cache/assize/models"); let mut c=EmbeddedConfig::new(dir); c.threads=Some(1); c.fast=fast; c.keep_prefix=false; let p=EmbeddedProvider::new(c); p.load(model,2048,n).unwrap();
 let src=std::fs::read_to_string("/work/main/crates/llama/benches/batch.rs").unwrap(); let user:String=src.chars().skip(2000).take(900).collect();
 for _ in 0..reps { let r=Request{prompt:"".into(),scenario:"".into(),candidates:(0..n).map(|s|Candidate{messages:vec![Message{role:Role::User,content:user.clone()}],seed:s+1}).collect(),sampling:Sampling{temperature:0.7,max_tokens:mt,num_ctx:2048,json_schema:None}};
 let t=std::time::Instant::now(); let o=p.generate(model,&r); let toks:u64=o.iter().map(|c|c.as_ref().unwrap().completion_tokens).sum(); println!("n={n} fast={fast} mt={mt} {:.3}s prompt {} tokens {toks}",t.elapsed().as_secs_f64(), o[0].as_ref().unwrap().prompt_tokens); } }
