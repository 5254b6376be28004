"""The prompt registry's round trip."""

import mlflow
from mlflow.exceptions import MlflowException

client = mlflow.MlflowClient()
first = mlflow.genai.register_prompt(
    name="tip", template="Say {{ topic }}.", commit_message="first", tags={"by": "me"}
)
assert first.version == 1, first
second = mlflow.genai.register_prompt(name="tip", template="Tell {{ topic }} in " + "many " * 2000)
assert second.version == 2
loaded = mlflow.genai.load_prompt("prompts:/tip/1")
assert loaded.template == "Say {{ topic }}." and loaded.commit_message == "first", loaded
assert loaded.tags["by"] == "me", loaded.tags
assert mlflow.genai.load_prompt("prompts:/tip/2").template == second.template
assert mlflow.genai.load_prompt("prompts:/tip@latest").version == 2
mlflow.genai.set_prompt_alias("tip", alias="production", version=1)
assert mlflow.genai.load_prompt("prompts:/tip@production").version == 1
mlflow.genai.set_prompt_alias("tip", alias="production", version=2)
assert mlflow.genai.load_prompt("prompts:/tip@production").version == 2
mlflow.genai.delete_prompt_alias("tip", alias="production")
try:
    client.get_model_version_by_alias("tip", "production")
    raise AssertionError("the alias is still there")
except MlflowException as error:
    assert error.error_code in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"), error
chat = mlflow.genai.register_prompt(
    name="chat", template=[{"role": "user", "content": "Hello {{ name }}"}]
)
assert mlflow.genai.load_prompt("prompts:/chat/1").template == chat.template
assert [it.name for it in mlflow.genai.search_prompts()] == ["chat", "tip"]
assert [it.name for it in mlflow.genai.search_prompts("name = 'tip'")] == ["tip"]
assert list(client.search_registered_models()) == [], "prompts are no models"
versions = client.search_prompt_versions("tip")
assert sorted(it.version for it in versions) == [1, 2], versions
client.set_prompt_version_tag("tip", "1", "quality", "good")
assert client.get_prompt_version("tip", "1").tags["quality"] == "good"
client.delete_prompt_version("tip", "2")
third = mlflow.genai.register_prompt(name="tip", template="Once more {{ topic }}")
assert third.version == 3, "a number is never given twice"

client.create_registered_model("model", tags={"a": "b"}, description="what it is")
client.create_model_version("model", source="somewhere")
assert client.get_registered_model("model").description == "what it is"
assert [it.name for it in client.search_registered_models("tags.a = 'b'")] == ["model"]
assert client.get_model_version("model", "1").source == "somewhere"
client.rename_registered_model("model", "renamed")
client.delete_registered_model("renamed")
assert list(client.search_registered_models()) == []
print("prompts: fine")
