// All tests in one process, which they share a browser in. Each file can be run alone as well.

import "./page.test.js";
import "./state.test.js";
import "./trouble.test.js";
import "./view.test.js";
import "./numbers.test.js";
import "./control.test.js";
import "./locked.test.js";
import "./runs.test.js";
import "./histograms.test.js";
import "./traces.test.js";
import "./map.test.js";
import "./values.test.js";
import "./real.test.js";
