// The page of `headway serve`: what /openapi.json and /v1/models say, and a way to try it.
// Texts are set as text, never as HTML. The token comes in the address after #token=, and stays in this tab.

const KEY = "headway-token";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem(KEY, given);
  history.replaceState(null, "", location.pathname);
}

function headers() {
  const token = sessionStorage.getItem(KEY);
  return { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
}

function element(name, text = "", ...children) {
  const made = document.createElement(name);
  made.textContent = text;
  made.append(...children);
  return made;
}

async function read(path) {
  const answer = await fetch(path, { headers: headers() });
  if (!answer.ok) throw answer;
  return answer.json();
}

function showModels(models) {
  const rows = models.map((model) => {
    const cells = [model.id, model.task, model.parameters.toLocaleString("en"), model.abilities.join(", ")];
    return element("tr", "", ...cells.map((text) => element("td", text)));
  });
  document.getElementById("models").replaceChildren(...rows);
}

function curl(path, body) {
  const quoted = body.replaceAll("'", "'\\''");
  const token = sessionStorage.getItem(KEY) ? ' -H "Authorization: Bearer $TOKEN"' : "";
  return `curl ${location.origin}${path}${token} \\\n  -H 'Content-Type: application/json' \\\n  -d '${quoted}'`;
}

function fieldsOf(schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) => {
    const note = field.default === undefined || field.default === null ? "" : ` Default: ${field.default}.`;
    const needed = schema.required.includes(name) ? " Needed." : "";
    return element("tr", "", element("td", "", element("code", name)), element("td", (field.description || "") + note + needed));
  });
  return element("table", "", element("tbody", "", ...rows));
}

function showRoute(path, operation) {
  const schema = operation.requestBody.content["application/json"].schema;
  const input = element("textarea");
  input.value = JSON.stringify(schema.example, null, 2);
  input.setAttribute("aria-label", `Body of a request to ${path}`);
  const command = element("pre", curl(path, input.value));
  input.addEventListener("input", () => { command.textContent = curl(path, input.value); });
  const output = element("pre");
  output.setAttribute("role", "status");
  const button = element("button", "Send");
  button.addEventListener("click", async () => {
    output.textContent = "…";
    const answer = await fetch(path, { method: "POST", headers: headers(), body: input.value });
    const text = await answer.text();
    try {
      output.textContent = `${answer.status}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
    } catch {
      output.textContent = `${answer.status}\n${text}`;
    }
  });
  const title = element("summary", "", element("code", `POST ${path}`), element("span", ` ${operation.summary}`));
  return element("details", "", title, input, button, output, element("p", "The same in a terminal:"), command, fieldsOf(schema));
}

function showReading(path, operation) {
  const title = element("code", `GET ${path}`);
  return element("p", "", title, element("span", ` ${operation.summary}`));
}

async function show() {
  const state = document.getElementById("state");
  const form = document.getElementById("token");
  try {
    const [models, api] = await Promise.all([read("/v1/models"), read("/openapi.json")]);
    form.hidden = true;
    state.textContent = `version ${api.info.version}`;
    showModels(models.data);
    const routes = Object.entries(api.paths).map(([path, { post, get }]) => (post ? showRoute(path, post) : showReading(path, get)));
    document.getElementById("routes").replaceChildren(...routes);
  } catch (problem) {
    form.hidden = problem.status !== 401;
    state.textContent = problem.status === 401 ? "" : `The server does not answer: ${problem.statusText || problem}`;
  }
}

document.getElementById("document").addEventListener("click", async (event) => {
  event.preventDefault();
  const url = URL.createObjectURL(new Blob([JSON.stringify(await read("/openapi.json"), null, 2)], { type: "application/json" }));
  const link = element("a");
  link.href = url;
  link.download = "openapi.json";
  link.click();
});
document.getElementById("token").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, document.getElementById("secret").value);
  show();
});
show();
