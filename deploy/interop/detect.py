"""Reads documents with boto3 through the proxy: detect.py ENDPOINT DAMAGED DOCUMENT...

All documents are sent at the same moment, and boto3 tries nothing again, so a throttled call must be saved by the proxy.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import boto3
from botocore.config import Config

MINIMUM = 4  # calls at the same moment; documents are repeated to reach it


def main() -> int:
    endpoint, damaged, *documents = sys.argv[1:]
    client = boto3.client(
        "textract",
        endpoint_url=endpoint,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=120, max_pool_connections=16),
    )
    print(f"boto3 {boto3.__version__}")

    def detect(path: str) -> dict:
        with open(path, "rb") as file:
            return client.detect_document_text(Document={"Bytes": file.read()})

    calls = (documents * MINIMUM)[: max(MINIMUM, len(documents))]
    problems = 0
    with ThreadPoolExecutor(len(calls)) as pool:
        pending = [(path, pool.submit(detect, path)) for path in calls]
    for n, (path, answer) in enumerate(pending):
        try:
            blocks = answer.result()["Blocks"]
        except Exception as error:  # every failure is one line, whatever it is
            print(f"{os.path.basename(path)}: {type(error).__name__}: {error}")
            problems += 1
            continue
        lines = [block["Text"] for block in blocks if block["BlockType"] == "LINE"]
        if not lines:
            print(f"{os.path.basename(path)}: no text")
            problems += 1
        if n < len(documents):
            print(f"{os.path.basename(path)}:", *lines, sep="\n  | ")

    try:
        detect(damaged)
        print("damaged: none none")
    except (client.exceptions.BadDocumentException, client.exceptions.UnsupportedDocumentException) as error:
        headers = error.response["ResponseMetadata"]["HTTPHeaders"]
        print("damaged:", type(error).__name__, headers.get("ocr-proxy-dead-letter-id", "none"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
