// The page for other hosts, which shows nothing without a token.

import assert from "node:assert/strict";
import { until } from "../browser.js";
import { BROKEN, reads, scenario } from "../harness.js";

const shown = (page) => until(page, () => document.querySelector(".phase") !== null && document.querySelector(".locked") === null);

scenario("nothing is shown without a token, and with one everything, in all tabs", async (mock, show) => {
  mock.locked = "viewer";
  const page = await show({ ready: false });
  await page.waitForSelector(".locked");
  await reads(page, ".locked", /^This page needs a token\. Whoever runs Sheaf here makes one with sheaf token add NAME --role viewer/);
  assert.equal(await page.locator(".panel").count(), 0);
  await reads(page, ".now.stale", /a token is needed/);

  await page.fill(".locked [name=token]", "wrong");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector(".locked .problem")?.textContent.includes("this token is not valid"));
  assert.equal(await page.locator(".panel").count(), 0);

  await page.fill(".locked [name=token]", "viewer");
  await page.keyboard.press("Enter");
  await shown(page);
  assert.ok((await page.context().cookies()).some(({ name, httpOnly }) => name === "sheaf-1" && httpOnly));
  const other = await page.context().newPage();
  await other.goto(mock.url);
  await shown(other);
  await other.close();

  // A token that was removed locks the page again, and what it has shown is marked.
  mock.locked = "another";
  mock.breakStream();
  mock.stream = "on";
  await until(page, () => document.querySelector(".locked") !== null);
  await reads(page, ".now.stale", /a token is needed/);
}, BROKEN);

scenario("a token in the address is taken, and a session is known without it", async (mock, show) => {
  mock.locked = "alice-token";
  mock.control();
  const page = await show({ hash: "#token=alice-token", ready: false });
  await shown(page);
  await until(page, () => document.querySelector(".access b")?.textContent === "alice");
  assert.equal(new URL(page.url()).hash, "");
  await page.click(".access .link");
  await until(page, () => document.querySelector(".locked") !== null);
  assert.equal(await page.locator(".panel").count(), 0, "what is for people with a token goes with it");
}, BROKEN);
