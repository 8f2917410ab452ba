// SPDX-License-Identifier: Apache-2.0
//
// The live page. /events tells five times a second how the sale goes; everything shown is drawn
// from the last of these messages, so a page that was away for a while is right again at once.
// Orders and faults are sent as anybody could send them, by the shop's own HTTP interface.
"use strict";

const byId = (id) => document.getElementById(id);
const show = (id, text) => { byId(id).textContent = text; };
const number = (value) => Number(value).toLocaleString("en");

const FAULTS = {
    "die": "kill a seller inside the lock",
    "stop": "stop a seller for 3 s",
    "slow": "an order that takes 3 s",
    "redis-restart": "restart Redis",
    "failover": "lose the master",
    "lock-server-down": "stop a lock server",
    "lock-server-up": "start it again",
};

// ===== What the events say =====

const ORDERS_AT_ONCE = 32;
const PACE_POINTS = 150;
const pace = [];
let strategies = {};
let item = new URLSearchParams(location.search).get("item") || "10001";
let chosen = false; // whether the visitor has chosen a strategy

function drawStock(event) {
    show("item", event.item);
    show("stock", number(event.stock));
    show("initial", number(event.initial));
    const part = event.initial > 0 ? Math.max(0, Math.min(1, event.stock / event.initial)) : 0;
    byId("fill").style.width = `${part * 100}%`;
    show("oversold-count", number(event.oversold));
    byId("oversold").classList.toggle("red", event.oversold > 0);
}

function drawPace(event) {
    pace.push(event.rate);
    if (pace.length > PACE_POINTS) {
        pace.shift();
    }
    show("rate", number(Math.round(event.rate)));
    show("p99", event.p99_ms > 0 ? `${event.p99_ms.toFixed(1)} ms` : "–");
    show("sold", number(event.sold));

    const canvas = byId("pace");
    const pen = canvas.getContext("2d");
    const most = Math.max(10, ...pace);
    const step = canvas.width / (PACE_POINTS - 1);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.beginPath();
    pace.forEach((rate, i) => pen.lineTo((PACE_POINTS - pace.length + i) * step,
        canvas.height - 4 - (canvas.height - 8) * rate / most));
    pen.lineWidth = 3;
    pen.strokeStyle = getComputedStyle(document.body).getPropertyValue("--accent");
    pen.stroke();
}

function drawLock(event) {
    show("holder", event.holder || "nobody");
    show("waiting", number(event.waiting));
    const ports = Object.entries(event.ports || {}).sort();
    const most = Math.max(1, ...ports.map(([, count]) => count));
    byId("ports").replaceChildren(...ports.map(([port, count]) => {
        const row = document.createElement("li");
        const bar = document.createElement("i");
        bar.style.width = `${100 * count / most}%`;
        row.append(cell("span", port), bar, cell("span", number(count)));
        return row;
    }));
}

function cell(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
}

function drawResults(results) {
    const place = Object.keys(strategies);
    const all = Object.values(results)
        .sort((a, b) => place.indexOf(a.strategy) - place.indexOf(b.strategy));
    const rows = all.map((result) => {
        const row = document.createElement("tr");
        row.classList.toggle("bad", result.oversold > 0);
        row.append(cell("td", result.strategy), cell("td", result.under || "load"),
            cell("td", number(result.sold)),
            cell("td", number(result.oversold)), cell("td", number(Math.round(result.rate))),
            cell("td", Number(result.p99_ms).toFixed(1)), cell("td", result.shows || ""));
        return row;
    });
    if (rows.length > 0) {
        byId("results").replaceChildren(...rows);
    }
}

let faultsShown = "";
function drawFaults(event) {
    const names = event.faults || [];
    byId("faults-section").hidden = names.length === 0;
    show("note", event.note || "");
    if (names.join() === faultsShown) {
        return;
    }
    faultsShown = names.join();
    byId("faults").replaceChildren(...names.map((name) => {
        const button = cell("button", FAULTS[name] || name);
        button.dataset.fault = name;
        button.addEventListener("click", () => strike(name));
        return button;
    }));
}

function draw(event) {
    if (!chosen && strategies[event.strategy]) {
        byId("strategy").value = event.strategy;
        describeStrategy();
    }
    drawStock(event);
    drawPace(event);
    drawLock(event);
    drawFaults(event);
    drawResults(event.results || {});
}

function listen() {
    const source = new EventSource(`events?item=${encodeURIComponent(item)}`);
    source.onopen = () => { show("link", "live"); byId("link").classList.add("live"); };
    source.onerror = () => { show("link", "away, trying again"); byId("link").classList.remove("live"); };
    source.onmessage = (message) => draw(JSON.parse(message.data));
}

// ===== What the visitor does =====

async function strike(name) {
    try {
        const answer = await fetch(`faults/${name}?for=3s`, { method: "POST" });
        const body = await answer.json();
        show("note", body.detail || body.note || body.error || "done");
    } catch (error) {
        show("note", `no answer: ${error.message}`);
    }
}

function describeStrategy() {
    const strategy = strategies[byId("strategy").value];
    if (strategy) {
        const words = strategy.flaw ? `Its flaw: ${strategy.flaw}` : strategy.title;
        show("flaw", strategy.needs ? `${words}. It needs ${strategy.needs}` : words);
    }
}

// One customer after another at each of a few counters, until all orders are placed.
async function placeOrders(count, strategy) {
    const ends = {};
    let left = count;
    const counter = async () => {
        while (left > 0) {
            left -= 1;
            let end = "no answer";
            try {
                const answer = await fetch(`items/${encodeURIComponent(item)}/orders?strategy=${strategy}`,
                    { method: "POST" });
                const body = await answer.json();
                end = answer.status === 201 ? "sold" : body.error || String(answer.status);
            } catch {
                // an instance that was just killed; the next order goes to another one
            }
            ends[end] = (ends[end] || 0) + 1;
        }
    };
    await Promise.all(Array.from({ length: Math.min(ORDERS_AT_ONCE, count) }, counter));
    return ends;
}

async function openSale(submit) {
    submit.preventDefault();
    const strategy = byId("strategy").value;
    const body = { stock: Number(byId("pieces").value) };
    if (strategy === "split") {
        body.segments = 4;
    }
    byId("open").disabled = true;
    show("answer", "the sale is open");
    try {
        const put = await fetch(`items/${encodeURIComponent(item)}`,
            { method: "PUT", body: JSON.stringify(body) });
        if (!put.ok) {
            throw new Error((await put.json()).detail || put.statusText);
        }
        const ends = await placeOrders(Number(byId("orders").value), strategy);
        show("answer", Object.entries(ends).map(([end, count]) => `${count} ${end}`).join(", "));
    } catch (error) {
        show("answer", error.message);
    }
    byId("open").disabled = false;
}

async function start() {
    byId("sale").addEventListener("submit", openSale);
    byId("strategy").addEventListener("change", () => { chosen = true; describeStrategy(); });
    listen();
    const all = await (await fetch("strategies")).json();
    strategies = Object.fromEntries(all.map((strategy) => [strategy.name, strategy]));
    byId("strategy").replaceChildren(...all.map((strategy) => {
        const choice = cell("option", `${strategy.name}: ${strategy.title}`);
        choice.value = strategy.name;
        return choice;
    }));
    describeStrategy();
}

start();
