// SPDX-License-Identifier: Apache-2.0
//
// The live page in a real browser. `node page.js URL [SCREENSHOT]`, against a shop that was started
// with --allow-faults and some --work; prints a line for each case and counts as the other tests do.
"use strict";

const fs = require("fs");
const os = require("os");
const path = require("path");
const { createRequire } = require("module");
const { chromium } = createRequire(path.join(process.cwd(), "/"))("playwright-core");

const [url, screenshot] = process.argv.slice(2);
const PATIENCE_MS = 20000;
const DESK = { width: 1200, height: 1000 };
const PHONE = { width: 390, height: 840 };

let page;
const errors = [];

const text = (id) => page.textContent(`#${id}`);
const number = async (id) => Number((await text(id)).replaceAll(",", ""));

async function until(condition, what) {
    const end = Date.now() + PATIENCE_MS;
    while (!(await condition())) {
        if (Date.now() > end) {
            throw new Error(`this never came true: ${what}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

async function ask(method, where, body) {
    const answer = await fetch(new URL(where, url), { method, body: body && JSON.stringify(body) });
    return { status: answer.status, body: await answer.json() };
}

async function openSale(strategy, pieces, orders) {
    await page.selectOption("#strategy", strategy);
    await page.fill("#pieces", String(pieces));
    await page.fill("#orders", String(orders));
    await page.click("#open");
    await until(async () => /sold/.test(await text("answer")), "the sale is over");
}

const cases = {
    async it_renders() {
        await page.goto(url);
        await until(async () => (await text("link")) === "live", "the events have begun");
        await until(async () => (await page.$$("#strategy option")).length >= 20, "strategies to choose");
        await until(async () => (await page.$$("#faults button")).length >= 3, "buttons for the faults");
    },

    async it_shows_the_stock_as_it_drains() {
        await ask("PUT", "/items/10001", { stock: 50 });
        await until(async () => (await number("stock")) === 50, "50 pieces on the page");
        for (let i = 0; i < 5; i += 1) {
            await ask("POST", "/items/10001/orders?strategy=pawl");
        }
        await until(async () => (await number("stock")) === 45, "45 pieces on the page");
        await until(async () => (await number("sold")) === 5, "5 sold on the page");
        await until(async () => (await page.$$("#ports li")).length >= 1, "who sold");
    },

    async a_sale_can_be_opened_on_the_page() {
        await openSale("pawl", 40, 60);
        await until(async () => (await number("stock")) === 0, "sold out");
        if (!/40 sold.*20 sold out/.test(await text("answer"))) {
            throw new Error(`it says: ${await text("answer")}`);
        }
        if (await page.$(".oversold.red")) {
            throw new Error("nothing was oversold, and yet it is red");
        }
    },

    async oversold_turns_red() {
        await openSale("none", 40, 100);
        await page.waitForSelector(".oversold.red", { timeout: PATIENCE_MS });
        await until(async () => (await number("oversold-count")) > 0, "how many");
        if (screenshot) {
            await new Promise((resolve) => setTimeout(resolve, 1000));
            await page.screenshot({ path: screenshot });
        }
    },

    async a_faults_button_strikes() {
        await ask("PUT", "/items/10001", { stock: 50 });
        await page.click('#faults button[data-fault="slow"]');
        await until(async () => (await text("note")) !== "", "a sentence about it");
        const order = ask("POST", "/items/10001/orders?strategy=pawl");
        await until(async () => (await text("holder")) !== "nobody", "who holds the lock");
        await order;
        await until(async () => (await text("holder")) === "nobody", "the lock is free again");
    },

    async it_fits_a_phone() {
        await page.setViewportSize(PHONE);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        await page.setViewportSize(DESK);
        if (wide) {
            throw new Error("it is wider than the screen");
        }
    },

    async nothing_complained() {
        if (errors.length > 0) {
            throw new Error(errors.join("; "));
        }
    },
};

async function main() {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), "flashsale-page-"));
    const browser = await chromium.launchPersistentContext(profile, {
        executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"],
        viewport: DESK,
    });
    page = await browser.newPage();
    page.on("pageerror", (error) => errors.push(error.message));
    let failed = 0;
    for (const [name, run] of Object.entries(cases)) {
        try {
            await run();
            console.log(`ok ${name}`);
        } catch (error) {
            failed += 1;
            console.log(`FAILED ${name}: ${error.message}`);
        }
    }
    await browser.close();
    fs.rmSync(profile, { recursive: true, force: true });
    console.log(`[  PASSED  ] ${Object.keys(cases).length - failed} test(s).`);
    if (failed > 0) {
        console.log(`[  FAILED  ] ${failed} test(s).`);
    }
    return failed > 0 ? 1 : 0;
}

main().then((status) => process.exit(status), (error) => { console.log(error.message); process.exit(1); });
