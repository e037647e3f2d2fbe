// Reads one page with one JavaScript client through the proxy: drive.mjs CLIENT SCENARIO on|off BASE_URL PAGE
//
// Prints one line of JSON, as drive.py does.
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const patience = 60_000; // ms; how long a call waits for its answer
const hurry = 1_500; // ms; in the scenario hangup the answer takes longer
const pause = 3_500; // ms until a worker without retries calls again; by then the answer is there

const [name, scenario, retries, base, path] = process.argv.slice(2);
const page = await readFile(path);
const on = retries === "on";
const dataUri = `data:image/png;base64,${page.toString("base64")}`;
const { hostname, port } = new URL(base);

// Each client takes a read timeout in milliseconds and returns the text.
const clients = {
  "js-textract": {
    package: "@aws-sdk/client-textract",
    async call(timeout) {
      const aws = await import("@aws-sdk/client-textract");
      const client = new aws.TextractClient({
        region: "us-east-1",
        endpoint: base,
        credentials: { accessKeyId: "unused", secretAccessKey: "unused" },
        requestHandler: { requestTimeout: timeout, throwOnRequestTimeout: true },
        ...(on ? {} : { maxAttempts: 1 }),
      });
      let answer;
      if (scenario.startsWith("job")) {
        const place = { S3Object: { Bucket: "scans", Name: "lease.pdf" } };
        const { JobId } = await client.send(new aws.StartDocumentTextDetectionCommand({ DocumentLocation: place }));
        for (;;) {
          answer = await client.send(new aws.GetDocumentTextDetectionCommand({ JobId }));
          if (answer.JobStatus !== "IN_PROGRESS") break;
          await sleep(300);
        }
      } else {
        answer = await client.send(new aws.DetectDocumentTextCommand({ Document: { Bytes: page } }));
      }
      return answer.Blocks.filter((block) => block.BlockType === "LINE").map((block) => block.Text).join(" ");
    },
  },
  "js-document-intelligence": {
    package: "@azure-rest/ai-document-intelligence",
    async call(timeout) {
      const { default: DocumentIntelligence, getLongRunningPoller, isUnexpected } = await import("@azure-rest/ai-document-intelligence");
      const client = DocumentIntelligence(base, { key: "unused" }, {
        allowInsecureConnection: true,
        ...(on ? {} : { retryOptions: { maxRetries: 0 } }),
      });
      const started = await client.path("/documentModels/{modelId}:analyze", "prebuilt-read").post({
        contentType: "application/json",
        body: { base64Source: page.toString("base64") },
        timeout,
      });
      if (isUnexpected(started)) throw refusal(started);
      const done = await getLongRunningPoller(client, started, { intervalInMs: 300 }).pollUntilDone();
      return done.body.analyzeResult.content;
    },
  },
  "js-mistral": {
    package: "@mistralai/mistralai",
    async call(timeout) {
      const { Mistral } = await import("@mistralai/mistralai");
      const backoff = { initialInterval: 500, maxInterval: 5000, exponent: 1.5, maxElapsedTime: 15000 };
      const client = new Mistral({
        apiKey: "unused",
        serverURL: base,
        timeoutMs: timeout,
        ...(on ? { retryConfig: { strategy: "backoff", backoff, retryConnectionErrors: true } } : {}), // it has none unless it is told to
      });
      const answer = await client.ocr.process({ model: "mistral-ocr-latest", document: { type: "image_url", imageUrl: dataUri } });
      return answer.pages[0].markdown;
    },
  },
  "js-openai": {
    package: "openai",
    async call(timeout) {
      const { default: OpenAI } = await import("openai");
      const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "unused", timeout, ...(on ? {} : { maxRetries: 0 }) });
      const content = [{ type: "text", text: "Read this page." }, { type: "image_url", image_url: { url: dataUri } }];
      const answer = await client.chat.completions.create({ model: "reader", messages: [{ role: "user", content }] });
      return answer.choices[0].message.content;
    },
  },
  "js-documentai": { package: "@google-cloud/documentai", call: (timeout) => documentai(timeout, true) },
  "js-documentai-grpc": { package: "@google-cloud/documentai", call: (timeout) => documentai(timeout, false) },
  "js-vision": { package: "@google-cloud/vision", call: (timeout) => vision(timeout, true) },
  "js-vision-grpc": { package: "@google-cloud/vision", call: (timeout) => vision(timeout, false) },
};

// refusal makes an error of an answer that a library returns instead of throwing it.
function refusal(answer) {
  const error = new Error(answer.body?.error?.message ?? `status ${answer.status}`);
  error.name = `isUnexpected ${answer.status}`;
  error.headers = answer.headers;
  return error;
}

// google are the options of a client that finds no credentials and asks for none.
async function google(fallback) {
  const at = { apiEndpoint: hostname, port: Number(port) };
  if (!fallback) {
    const grpc = await import("@grpc/grpc-js");
    return { ...at, sslCreds: grpc.credentials.createInsecure() };
  }
  const { GoogleAuth, PassThroughClient } = await import("google-auth-library");
  return { ...at, fallback: true, protocol: "http", auth: new GoogleAuth({ authClient: new PassThroughClient() }) };
}

const googleCall = (timeout) => ({ timeout, ...(on ? {} : { retry: null }) });

async function documentai(timeout, fallback) {
  const { DocumentProcessorServiceClient } = await import("@google-cloud/documentai");
  const client = new DocumentProcessorServiceClient(await google(fallback));
  const rawDocument = { content: page, mimeType: "image/png" };
  const [answer] = await client.processDocument({ name: "projects/p/locations/us/processors/1", rawDocument }, googleCall(timeout));
  return answer.document.text;
}

async function vision(timeout, fallback) {
  const { ImageAnnotatorClient } = await import("@google-cloud/vision");
  const client = new ImageAnnotatorClient(await google(fallback));
  const requests = [{ image: { content: page }, features: [{ type: "DOCUMENT_TEXT_DETECTION" }] }];
  const [answer] = await client.batchAnnotateImages({ requests }, googleCall(timeout));
  const [item] = answer.responses;
  if (item.error) {
    const error = new Error(item.error.message); // the client throws nothing, the answer says so
    error.name = "(in the answer)";
    throw error;
  }
  return item.fullTextAnnotation.text;
}

// version reads the package's own description, which not every package lets others import.
async function version(of) {
  return JSON.parse(await readFile(new URL(`node_modules/${of}/package.json`, import.meta.url))).version;
}

// header finds a header of the answer behind an error; every library keeps them elsewhere.
function header(error, key) {
  const from = error.headers ?? error.$response?.headers ?? error.metadata ?? error.response?.headers;
  const value = typeof from?.get === "function" ? from.get(key) : from?.[key];
  return String((Array.isArray(value) ? value[0] : value) ?? "");
}

const client = clients[name];
const line = {
  client: name, version: await version(client.package), scenario, retries,
  result: "error", exception: "", calls: 0, class: "", reason: "",
};
for (const timeout of scenario !== "hangup" ? [patience] : on ? [hurry] : [hurry, patience]) {
  if (line.calls > 0) await sleep(pause);
  line.calls++;
  try {
    line.result = (await client.call(timeout)).trim() === "" ? "empty" : "ok";
    break;
  } catch (error) {
    const own = error.name && error.name !== "Error" ? error.name : error.constructor.name;
    line.exception = own === "Error" && error.code !== undefined ? `Error, code ${error.code}` : own;
    line.message = String(error.message).slice(0, 200);
    line.class = header(error, "ocr-proxy-class");
    line.reason = header(error, "ocr-proxy-reason");
  }
}
console.log(JSON.stringify(line));
process.exit(0);
