// Answers from answers.json, by the prompt's label and the variable `case`.
import { readFileSync } from 'node:fs';

const answers = JSON.parse(readFileSync(new URL('answers.json', import.meta.url), 'utf8'));

export default class {
  id() {
    return 'recorded';
  }

  async callApi(prompt, context) {
    // promptfoo adds the path and the text of a file to its label.
    const label = context.prompt.label.split(':')[0];
    return { output: answers[label][context.vars.case] };
  }
}
