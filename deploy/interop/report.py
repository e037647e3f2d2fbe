"""Judges the cells of the matrix and writes the tables of docs/clients.md.

report.py add LINE STATS METRICS RESULTS   adds a driver's line with what the provider charged, judges it and prints the verdict
report.py silent CLIENT SCENARIO RETRIES SECONDS LOG   is the line for a driver that said nothing
report.py write RESULTS DOCUMENT       writes the tables between the markers
report.py close RESULTS                prints the last line; its exit status tells whether a cell failed
"""

import json
import sys

BEGIN, END = "<!-- matrix: written by deploy/interop/matrix.sh -->", "<!-- end of matrix -->"
SCENARIOS = ("success", "throttle", "outage", "lost", "corrupt", "hangup", "down", "job", "job-lost")
FRUITLESS = ("corrupt", "down")  # the caller gets an error and no page is charged


def marked(client: str) -> bool:
    """Reports whether the client's own retries say that they are the same call."""
    return not any(part in client for part in ("documentai", "vision", "mistral"))


def repeats(client: str) -> bool:
    """Reports whether the client's own retries repeat a POST whose answer it did not wait for."""
    return not client.startswith("azure-ai-") and client != "js-document-intelligence"


def starts_job(client: str) -> bool:
    """Reports whether a call is a job start without an idempotency token."""
    return "azure" in client or "document-intelligence" in client


def billed(cell: dict) -> int:
    """The pages that a provider may have charged. The simulator charges nothing for a call that is given up while it is at work; a real one may have
    finished it all the same, so each of those counts as a page here."""
    return cell["pages"] + (cell["lost"] if cell["scenario"] == "hangup" else 0)


def untested(cell: dict) -> bool:
    """Reports whether the fault did not come about: the client waited although it was told not to, so the cell shows nothing about hanging up."""
    return cell["scenario"] == "hangup" and cell["calls"] > 0 and cell["unanswered"] == 0


def verdict(cell: dict) -> str:
    """What is wrong with a cell; empty when nothing is."""
    client, scenario, pages = cell["client"], cell["scenario"], billed(cell)
    retries, ok = cell["retries"] == "on", cell["result"] == "ok"
    if cell["calls"] == 0:
        return "the driver failed: " + cell.get("message", "")
    if scenario in FRUITLESS:
        return "" if not ok and pages == 0 else f"an error and no page was expected, not {cell['result']} and {pages}"
    if cell["jobs"] > 1:
        return f"{cell['jobs']} jobs were started"
    if scenario == "lost" and starts_job(client):  # the job runs, its name is lost; a second start would be a second payment
        return "" if pages <= 1 else f"{pages} pages were charged"
    if scenario == "lost":  # stated, not demanded: nobody can know that the work was done
        return "" if ok else f"an answer was expected, not {cell['exception']}"
    if scenario == "hangup" and retries and not marked(client):  # a second call of the library cannot be told from another one; stated
        return ""
    if not ok and not (scenario == "hangup" and retries and not repeats(client)):  # there the error is the library's; only the payment is ours
        return f"an answer was expected, not {cell['exception']} {cell.get('message', '')}"
    return "" if pages == 1 else f"up to {pages} pages were charged instead of 1"


def silent(client: str, scenario: str, retries: str, seconds: str, log: str) -> None:
    cell = {"client": client, "version": "?", "scenario": scenario, "retries": retries, "result": "error", "exception": "", "calls": 0}
    with open(log, encoding="utf-8", errors="replace") as file:
        last = [line.strip() for line in file if line.strip()][-1:]
    if last:
        cell["message"] = last[0][:300]
    else:  # it was stopped
        cell |= {"exception": f"still trying after {seconds} s", "calls": 1}
    print(json.dumps(cell))


def unanswered(metrics: str) -> int:
    """How many requests of the client the proxy did not end with a success: it hung up over them or its own deadline ended them."""
    with open(metrics, encoding="utf-8") as file:
        series = [line.rsplit(" ", 1) for line in file if line.startswith("ocrproxy_requests_total{")]
    return int(sum(float(value) for labels, value in series if 'outcome="success"' not in labels))


def add(line: str, stats_file: str, metrics: str, results: str) -> None:
    cell = json.loads(line)
    with open(stats_file, encoding="utf-8") as file:
        stats = json.load(file)
    cell |= {name: stats.get(name, 0) for name in ("requests", "pages", "jobs", "lost")}
    cell["unanswered"] = unanswered(metrics)
    with open(results, "a", encoding="utf-8") as file:
        file.write(json.dumps(cell) + "\n")
    seen = " ".join(filter(None, (cell["result"], cell["exception"], cell.get("class"), cell.get("reason"))))
    wrong = verdict(cell)
    word = "skip" if untested(cell) else "FAIL" if wrong else "pass"
    print(f"{word}  {cell['scenario']:9} retries {cell['retries']:3}  {seen}; billed {ratio(cell)}, {cell['requests']} requests  {wrong}".rstrip())


def ratio(cell: dict) -> str:
    """Pages billed over pages needed."""
    needed = 0 if cell["scenario"] in FRUITLESS else 1
    return f"{billed(cell) / needed:.2f}" if needed else f"{billed(cell)}/0"


def load(results: str) -> list[dict]:
    """The newest result of every cell."""
    with open(results, encoding="utf-8") as file:
        cells = [json.loads(line) for line in file]
    return list({(cell["client"], cell["scenario"], cell["retries"]): cell for cell in cells}.values())


def shown(cell: dict | None) -> str:
    """One cell of the table."""
    if cell is None:
        return "–"
    what = "ok" if cell["result"] == "ok" else f"`{cell['exception'] or cell['result']}`"
    if cell["result"] == "ok" and cell["exception"]:
        what = f"`{cell['exception']}`, then ok"
    if untested(cell):
        return "did not hang up"
    note = " **!**" if verdict(cell) else ""
    return f"{what} {ratio(cell)}{note}"


def tables(cells: list[dict]) -> str:
    found = {(cell["client"], cell["scenario"], cell["retries"]): cell for cell in cells}
    versions: dict[str, str] = {}
    for cell in cells:
        if cell["version"] != "?" or cell["client"] not in versions:
            versions[cell["client"]] = cell["version"]
    lines = ["| Client | Version | Retries | " + " | ".join(SCENARIOS) + " |", "|---|---|---|" + "---|" * len(SCENARIOS)]
    for client, version in versions.items():
        for retries in ("off", "on"):
            row = " | ".join(shown(found.get((client, scenario, retries))) for scenario in SCENARIOS)
            lines.append(f"| {client} | {version} | {retries} | {row} |")
    return "\n".join(lines)


def write(results: str, document: str) -> None:
    with open(document, encoding="utf-8") as file:
        text = file.read()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"interop: {document} has lost its markers")
    with open(document, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{tables(load(results))}\n\n{END}{after}")


def close(results: str) -> None:
    cells = load(results)
    skipped = sum(map(untested, cells))
    failed = sum(bool(verdict(cell)) and not untested(cell) for cell in cells)
    print(f"\n{len(cells) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    {"add": add, "silent": silent, "write": write, "close": close}[sys.argv[1]](*sys.argv[2:])
