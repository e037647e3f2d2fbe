// Reads documents with the AWS SDK for JavaScript through the proxy: detect.mjs ENDPOINT DAMAGED DOCUMENT...
//
// All documents are sent at the same moment, and the SDK tries nothing again, so a throttled call must be saved by the proxy.
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import {
  BadDocumentException,
  DetectDocumentTextCommand,
  TextractClient,
  UnsupportedDocumentException,
} from "@aws-sdk/client-textract";

const minimum = 4; // calls at the same moment; documents are repeated to reach it
const [endpoint, damaged, ...documents] = process.argv.slice(2);
const client = new TextractClient({ endpoint, region: process.env.AWS_REGION, maxAttempts: 1 });

const detect = async (path) => client.send(new DetectDocumentTextCommand({ Document: { Bytes: await readFile(path) } }));

const calls = Array.from({ length: Math.max(minimum, documents.length) }, (_, n) => documents[n % documents.length]);
const answers = await Promise.allSettled(calls.map(detect));
let problems = 0;
answers.forEach((answer, n) => {
  const name = basename(calls[n]);
  if (answer.status === "rejected") {
    console.log(`${name}: ${answer.reason.name}: ${answer.reason.message}`);
    problems++;
    return;
  }
  const lines = answer.value.Blocks.filter((block) => block.BlockType === "LINE").map((block) => block.Text);
  if (lines.length === 0) {
    console.log(`${name}: no text`);
    problems++;
  }
  if (n < documents.length) {
    console.log([`${name}:`, ...lines].join("\n  | "));
  }
});

try {
  await detect(damaged);
  console.log("damaged: none none");
} catch (error) {
  if (!(error instanceof BadDocumentException || error instanceof UnsupportedDocumentException)) {
    throw error;
  }
  console.log("damaged:", error.name, error.$response?.headers["ocr-proxy-dead-letter-id"] ?? "none");
}
process.exitCode = problems > 0 ? 1 : 0;
