// Asking the daemon.

const KEY = "shingle-token";

// The token is in the fragment of the address, which nobody is told. It stays with this tab, and leaves the address.
export function takeToken() {
  const found = /(?:^#|&)token=([^&]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEY, found[1]);
    history.replaceState(null, "", location.pathname);
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export const setToken = (token) => sessionStorage.setItem(KEY, token);

// What went wrong, and whether it is the token.
export class Trouble extends Error {
  constructor(message, isStranger) {
    super(message);
    this.isStranger = isStranger;
  }
}

const PATIENCE_MS = 12_000;

async function ask(path) {
  let answer;
  try {
    const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
    answer = await fetch(`api/${path}`, { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
  } catch {
    throw new Trouble("The daemon does not answer", false);
  }
  if (answer.status === 401) throw new Trouble("The token is not the one of this daemon", true);
  if (!answer.ok) throw new Trouble((await answer.text()).trim() || `The daemon says ${answer.status}`, false);
  return answer;
}

export const askJson = async (path) => (await ask(path)).json();
export const askBytes = async (path) => (await ask(path)).arrayBuffer();
