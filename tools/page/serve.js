// Serves the page with the sample run until it is ended, to look at it without a run.

import { Mock } from "./mock.js";
import { advance } from "./sample.js";

const mock = await new Mock().start();
setInterval(() => mock.change(advance), 250);
console.log(`the sample run is at ${mock.url}`);
