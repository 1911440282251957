// The one script of the pages: countdowns, and the calls to the passkey. Everything else works
// without it. It writes text only, never markup.
"use strict";

const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

const decode = (text) => {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(raw, (character) => character.charCodeAt(0));
};

const descriptors = (list) => (list ?? []).map((one) => ({ ...one, id: decode(one.id) }));

// What `PublicKeyCredential.toJSON()` gives, for browsers that do not have it yet.
const told = (credential) => {
  const response = { clientDataJSON: encode(credential.response.clientDataJSON) };
  for (const name of ["authenticatorData", "signature", "userHandle", "attestationObject"]) {
    if (credential.response[name]) response[name] = encode(credential.response[name]);
  }
  return JSON.stringify({
    id: credential.id,
    rawId: encode(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: {},
  });
};

const asserted = async (options) => told(await navigator.credentials.get({
  publicKey: {
    ...options,
    challenge: decode(options.challenge),
    allowCredentials: descriptors(options.allowCredentials),
  },
}));

const made = async (options) => told(await navigator.credentials.create({
  publicKey: {
    ...options,
    challenge: decode(options.challenge),
    user: { ...options.user, id: decode(options.user.id) },
    excludeCredentials: descriptors(options.excludeCredentials),
  },
}));

const WHY = {
  NotAllowedError: "Nothing was signed: the passkey was not used, or its time was over.",
  InvalidStateError: "This device has a passkey for this already.",
  SecurityError: "Passkeys do not work under this address.",
};

const buttons = (form) => [...form.querySelectorAll("button[type=submit]")];
const say = (form, text) => { form.querySelector("[data-said]").textContent = text; };
const enable = (form) => {
  if (!form.dataset.over) buttons(form).forEach((one) => { one.disabled = false; });
};
const disable = (form) => buttons(form).forEach((one) => { one.disabled = true; });

// One passkey call at a time, whatever is clicked meanwhile; the form goes once it has an answer.
const whenSubmitted = (form, work) => form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (form.dataset.busy || form.dataset.over) return;
  form.dataset.busy = "yes";
  disable(form);
  say(form, "Waiting for your passkey…");
  try {
    await work(event.submitter);
    say(form, "Handing it in…");
    form.submit();
  } catch (trouble) {
    say(form, WHY[trouble.name] ?? trouble.message);
    delete form.dataset.busy;
    enable(form);
  }
});

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const call = form.dataset.passkey === "create" ? made : asserted;
  whenSubmitted(form, async () => {
    form.elements.credential.value = await call(JSON.parse(form.dataset.options));
  });
  if (window.PublicKeyCredential) enable(form);
  else say(form, "This browser has no passkeys.");
}

for (const form of document.querySelectorAll("form[data-decide]")) {
  whenSubmitted(form, async (button) => {
    const fields = new URLSearchParams(new FormData(form));
    fields.delete("once");
    fields.delete("credential");
    fields.set("decision", button.value);
    const answer = await fetch(`${form.getAttribute("action")}/statement`, {
      method: "POST", body: fields, redirect: "error", credentials: "same-origin",
    });
    const said = await answer.json().catch(() => ({
      sentence: "You are not logged in any more, or the ledger does not answer.",
      hint: "Read the page again.",
    }));
    if (!answer.ok) throw new Error(`${said.sentence} ${said.hint}`);
    form.elements.credential.value = await asserted(said.options);
    form.elements.once.value = said.once;
  });
  if (window.PublicKeyCredential) enable(form);
  else say(form, "This browser has no passkeys.");
}

// Who comes back with the browser's button may be given the page as they left it, with a form that
// still says it is being handed in. What is there now is asked for, and nothing handed in again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.replace(location.pathname + location.search);
});

// Countdowns run on this machine's own pace from the ledger's clock, however wrong its time is.
const began = performance.now();
const spanned = (ms) => {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds >= 86400) return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${seconds} s`;
};
const remaining = (one) => one.dataset.until - one.dataset.now - (performance.now() - began);

const count = () => {
  for (const one of document.querySelectorAll(".left[data-until]")) {
    const ms = remaining(one);
    one.textContent = ms > 0 ? `${spanned(ms)} left` : one.dataset.over;
    one.classList.toggle("soon", ms > 0 && ms < 120000);
    one.classList.toggle("over", ms <= 0);
  }
  for (const form of document.querySelectorAll("form[data-until]")) {
    if (remaining(form) <= 0 && !form.dataset.over) {
      form.dataset.over = "yes";
      disable(form);
      say(form, "The request ran out. That is no denial; read the page again.");
    }
  }
};
count();
setInterval(count, 250);
