// Posts the files 0, 1, 2, ... of a folder, each to its own id, four at a time.
import { readFile } from "node:fs/promises";

const [url, folder, count] = process.argv.slice(2);
let next = 0;

async function post(number) {
  const payload = await readFile(`${folder}/${number}`);
  const options =
    number % 2 === 0
      ? { body: payload }
      : { body: new Blob([payload]).stream(), duplex: "half" }; // in chunks
  const answer = await fetch(url + number, { method: "POST", ...options });
  await answer.text();
  if (answer.status !== 202) throw new Error(`${number} answered with ${answer.status}`);
}

async function some() {
  while (next < Number(count)) await post(next++);
}

await Promise.all([some(), some(), some(), some()]);
