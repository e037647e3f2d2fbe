"""Reads one page with one Python client through the proxy: drive.py CLIENT SCENARIO on|off BASE_URL PAGE

Prints one line of JSON: client, version, scenario, retries, result, exception, calls, class and reason. The last two are what the proxy says in its
headers, where the client's exception gives access to them.
"""

import base64
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable

PATIENCE = 60  # seconds; how long a call waits for its answer
HURRY = 1.5  # seconds; in the scenario hangup the answer takes longer
PAUSE = 3.5  # seconds until a worker without retries calls again; by then the answer is there


class Cell:
    """What a client is built for."""

    def __init__(self, scenario: str, retries: bool, base: str, page: bytes) -> None:
        self.scenario, self.retries, self.base, self.page = scenario, retries, base, page
        self.host = base.removeprefix("http://")

    def data_uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.page).decode()


Call = Callable[[float], str]  # takes the read timeout in seconds, returns the text


def textract(cell: Cell, mode: str | None) -> Call:
    import boto3
    from botocore.config import Config

    retries = {"mode": mode} if mode else {}
    if not cell.retries:
        retries["total_max_attempts"] = 1

    def call(timeout: float) -> str:
        client = boto3.client(
            "textract",
            endpoint_url=cell.base,
            region_name="us-east-1",
            aws_access_key_id="unused",
            aws_secret_access_key="unused",
            config=Config(read_timeout=timeout, **({"retries": retries} if retries else {})),
        )
        if not cell.scenario.startswith("job"):
            answer = client.detect_document_text(Document={"Bytes": cell.page})
        else:
            place = {"S3Object": {"Bucket": "scans", "Name": "lease.pdf"}}
            job = client.start_document_text_detection(DocumentLocation=place)["JobId"]
            while (answer := client.get_document_text_detection(JobId=job))["JobStatus"] == "IN_PROGRESS":
                time.sleep(0.3)
        return " ".join(block["Text"] for block in answer["Blocks"] if block["BlockType"] == "LINE")

    return call


def document_intelligence(cell: Cell) -> Call:
    from azure.ai.documentintelligence import DocumentIntelligenceClient
    from azure.core.credentials import AzureKeyCredential

    off = {} if cell.retries else {"retry_total": 0}

    def call(timeout: float) -> str:
        client = DocumentIntelligenceClient(cell.base, AzureKeyCredential("unused"), read_timeout=timeout, polling_interval=1, **off)
        return client.begin_analyze_document("prebuilt-read", cell.page).result().content

    return call


def form_recognizer(cell: Cell) -> Call:
    from azure.ai.formrecognizer import DocumentAnalysisClient
    from azure.core.credentials import AzureKeyCredential

    off = {} if cell.retries else {"retry_total": 0}

    def call(timeout: float) -> str:
        client = DocumentAnalysisClient(cell.base, AzureKeyCredential("unused"), read_timeout=timeout, polling_interval=1, **off)
        return client.begin_analyze_document("prebuilt-read", cell.page).result().content

    return call


def documentai(cell: Cell, transport: str) -> Call:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import documentai

    if transport == "grpc":
        import grpc
        from google.cloud.documentai_v1.services.document_processor_service.transports import DocumentProcessorServiceGrpcTransport

        client = documentai.DocumentProcessorServiceClient(
            transport=DocumentProcessorServiceGrpcTransport(channel=grpc.insecure_channel(cell.host))
        )
    else:
        client = documentai.DocumentProcessorServiceClient(
            transport="rest", credentials=AnonymousCredentials(), client_options={"api_endpoint": cell.base}
        )
    request = documentai.ProcessRequest(
        name="projects/p/locations/us/processors/1",
        raw_document=documentai.RawDocument(content=cell.page, mime_type="image/png"),
    )
    off = {} if cell.retries else {"retry": None}
    return lambda timeout: client.process_document(request=request, timeout=timeout, **off).document.text


def vision(cell: Cell, transport: str) -> Call:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import vision

    if transport == "grpc":
        import grpc
        from google.cloud.vision_v1.services.image_annotator.transports import ImageAnnotatorGrpcTransport

        client = vision.ImageAnnotatorClient(transport=ImageAnnotatorGrpcTransport(channel=grpc.insecure_channel(cell.host)))
    else:
        client = vision.ImageAnnotatorClient(
            transport="rest", credentials=AnonymousCredentials(), client_options={"api_endpoint": cell.base}
        )
    off = {} if cell.retries else {"retry": None}

    def call(timeout: float) -> str:
        answer = client.document_text_detection(image={"content": cell.page}, timeout=timeout, **off)
        if answer.error.message:
            raise ItemError(answer.error.message)
        return answer.full_text_annotation.text

    return call


class ItemError(Exception):
    """An image of a Vision batch that was not read; the client raises nothing, the answer says so."""


def mistral(cell: Cell) -> Call:
    from mistralai.client import Mistral
    from mistralai.client.utils import BackoffStrategy, RetryConfig

    on = {}
    if cell.retries:  # it has none unless it is told to
        on["retry_config"] = RetryConfig("backoff", BackoffStrategy(500, 5000, 1.5, 15000), True)

    def call(timeout: float) -> str:
        client = Mistral(api_key="unused", server_url=cell.base, timeout_ms=int(timeout * 1000), **on)
        document = {"type": "image_url", "image_url": cell.data_uri()}
        return client.ocr.process(model="mistral-ocr-latest", document=document).pages[0].markdown

    return call


def openai(cell: Cell) -> Call:
    from openai import OpenAI

    off = {} if cell.retries else {"max_retries": 0}

    def call(timeout: float) -> str:
        client = OpenAI(base_url=cell.base + "/v1", api_key="unused", timeout=timeout, **off)
        content = [{"type": "text", "text": "Read this page."}, {"type": "image_url", "image_url": {"url": cell.data_uri()}}]
        answer = client.chat.completions.create(model="reader", messages=[{"role": "user", "content": content}])
        return answer.choices[0].message.content

    return call


def clients() -> dict[str, tuple[str, Callable[[Cell], Call]]]:
    """The package of each client, whose version is told, and what builds it."""
    return {
        "boto3": ("boto3", lambda cell: textract(cell, None)),
        "boto3-legacy": ("boto3", lambda cell: textract(cell, "legacy")),
        "azure-ai-documentintelligence": ("azure-ai-documentintelligence", document_intelligence),
        "azure-ai-formrecognizer": ("azure-ai-formrecognizer", form_recognizer),
        "google-cloud-documentai": ("google-cloud-documentai", lambda cell: documentai(cell, "rest")),
        "google-cloud-documentai-grpc": ("google-cloud-documentai", lambda cell: documentai(cell, "grpc")),
        "google-cloud-vision": ("google-cloud-vision", lambda cell: vision(cell, "rest")),
        "google-cloud-vision-grpc": ("google-cloud-vision", lambda cell: vision(cell, "grpc")),
        "mistralai": ("mistralai", mistral),
        "openai": ("openai", openai),
    }


def headers(error: Exception) -> dict[str, str]:
    """The headers of the answer behind an exception; every library keeps them elsewhere."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        found = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    elif callable(getattr(response, "trailing_metadata", None)):  # gRPC
        found = dict(response.trailing_metadata() or ())
    elif response is not None:  # azure, google REST, openai
        found = response.headers
    else:  # mistralai
        found = getattr(error, "headers", None) or {}
    return {str(name).lower(): value for name, value in found.items()}


def main() -> None:
    name, scenario, retries, base, path = sys.argv[1:]
    with open(path, "rb") as file:
        cell = Cell(scenario, retries == "on", base, file.read())
    package, build = clients()[name]
    call = build(cell)
    line = {"client": name, "version": importlib.metadata.version(package), "scenario": scenario, "retries": retries}
    line |= {"result": "error", "exception": "", "calls": 0, "class": "", "reason": ""}
    timeouts = [PATIENCE]
    if scenario == "hangup":
        timeouts = [HURRY] if cell.retries else [HURRY, PATIENCE]
    for timeout in timeouts:
        if line["calls"] > 0:
            time.sleep(PAUSE)
        line["calls"] += 1
        try:
            line["result"] = "ok" if call(timeout).strip() else "empty"
            break
        except Exception as error:  # every failure is one line, whatever it is
            line["exception"] = type(error).__name__
            line["message"] = str(error)[:200]
            told = headers(error)
            line["class"], line["reason"] = told.get("ocr-proxy-class", ""), told.get("ocr-proxy-reason", "")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
