// The server's answers. Only this server is ever asked.

export class ServerError extends Error {}

async function ask(url, options) {
  let response;
  try {
    response = await fetch(url, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server doesn't answer: it may have been stopped. This page asks again every few seconds.");
  }
  if (!response.ok) {
    const record = await response.json().catch(() => ({}));
    const error = new ServerError(record.error ?? `The server answered ${response.status}.`);
    error.status = response.status;
    throw error;
  }
  return response;
}

export async function fetchRuns(since) {
  return (await ask(`/api/runs?${new URLSearchParams({ since })}`)).json();
}

export async function fetchRun(run, since) {
  return (await ask(`/api/run?${new URLSearchParams({ run, since })}`)).json();
}

// For each chart a list of lines {n, x, mean, low, high}; low and high are mean itself where buckets hold one value.
export async function fetchPoints(question, signal) {
  const response = await ask("/api/points", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
    signal,
  });
  return unpack(await response.arrayBuffer());
}

// The same while the page waits: a browser prints what's there when its question for it returns.
export function fetchPointsNow(question) {
  const request = new XMLHttpRequest();
  request.open("POST", "/api/points", false);
  request.setRequestHeader("Content-Type", "application/json");
  request.overrideMimeType("text/plain; charset=x-user-defined"); // bytes as characters: no other type is given at once
  request.send(JSON.stringify(question));
  if (request.status !== 200) throw new ServerError(`The server answered ${request.status}.`);
  return unpack(Uint8Array.from(request.responseText, (c) => c.charCodeAt(0) & 0xff).buffer);
}

export function unpack(buffer) {
  const bytes = new Uint8Array(buffer);
  const end = bytes.indexOf(10);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  let offset = end + 1;
  const column = (length) => {
    const values = new Float64Array(buffer, offset, length);
    offset += 8 * length;
    return values;
  };
  return head.map((lines) =>
    lines.map(([n, length, hasExtremes]) => {
      const x = column(length);
      const mean = column(length);
      return { n, x, mean, low: hasExtremes ? column(length) : mean, high: hasExtremes ? column(length) : mean };
    }));
}
