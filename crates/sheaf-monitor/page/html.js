/** Binds the template syntax of htm to preact. */

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
