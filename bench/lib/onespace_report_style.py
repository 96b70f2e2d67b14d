"""bench/lib/onespace_report_style.py: the report's style sheet: light and dark, narrow and wide, and in print."""

# Okabe and Ito's palette, lighter in the dark where it would be hard to see.
STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #57606a; --rule: #d8dee4; --box: #f6f8fa;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8528f; --c4: #b57f00; --c5: #3399cc; --c6: #6b4fbb;
  --c7: #7a5230; --limit: #57606a; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9aa5b1; --rule: #30363d;
  --box: #161b22; --c0: #58a6e8; --c1: #ff8c42; --c2: #33c89d; --c3: #e08cc0; --c4: #f0c04a; --c5: #8fd3ff;
  --c6: #b39cff; --c7: #d3a57c; --limit: #aab4be; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 .6rem; }
h3 { font-size: .95rem; margin: 0 0 .2rem; }
a { color: var(--c0); }
.faint, .note, dd, .source { color: var(--faint); font-size: .9rem; }
nav ol { padding-left: 1.6rem; columns: 24rem; column-gap: 2.4rem; }
nav li { break-inside: avoid; padding: .1rem 0; }
section { border-top: 1px solid var(--rule); margin-top: 2rem; padding-top: 1.4rem; }
.held { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: .8rem; }
.held > div { background: var(--box); border-left: 4px solid var(--rule); padding: .6rem .8rem; border-radius: 4px; }
.held > .here { border-left-color: var(--c0); }
.held b { display: block; font-size: .8rem; letter-spacing: .02em; color: var(--faint); font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem; margin: .8rem 0; font-size: .9rem; }
dt { color: var(--faint); } dd { margin: 0; }
code { font-size: .92em; }
.main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 23rem), 1fr)); gap: 1.4rem; }
.main .held { grid-template-columns: 1fr; align-content: start; }
.summary td, .summary th { white-space: normal; text-align: left; vertical-align: top; }
.summary .gain { color: var(--c2); font-weight: 600; } .summary .loss { color: var(--c1); font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 23rem), 1fr)); gap: 1.4rem; }
figure { margin: 0; min-width: 0; break-inside: avoid; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem .9rem; margin: .2rem 0; padding: 0;
  font-size: .82rem; }
.legend li { display: flex; align-items: center; gap: .35rem; }
.swatch { width: 30px; height: 12px; flex: none; }
.chart { display: block; width: 100%; height: auto; max-width: 34rem; }
.chart text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.chart .label { fill: var(--faint); }
.grid { stroke: var(--rule); stroke-width: 1; }
.lead { stroke: var(--rule); stroke-width: 3; }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.band { opacity: .18; }
.curve.whisker { stroke-width: 1; opacity: .45; }
.mark { stroke-width: 1.5; }
.mark.hollow { fill: var(--paper) !important; }
CURVES
figcaption { font-size: .85rem; color: var(--faint); }
details { font-size: .85rem; margin-top: .3rem; }
summary { cursor: pointer; color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
@media (max-width: 30rem) { body { padding: .8rem .7rem 3rem; } h1 { font-size: 1.4rem; } dl { display: block; }
  dd { margin: 0 0 .3rem; } .chart text { font-size: 13px; }
  .summary, .summary tbody, .summary tr, .summary td { display: block; } .summary thead { display: none; }
  .summary tr { border-bottom: 1px solid var(--rule); padding: .3rem 0; } .summary td { border: 0; padding: .1rem 0; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --faint: #444; --rule: #ccc; --box: #fff;
    --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8528f; --c4: #b57f00; --c5: #3399cc; --c6: #6b4fbb;
    --c7: #7a5230; --limit: #444; }
  body { max-width: none; padding: 0; font-size: 10pt; } details { display: none; }
  section { break-before: page; } .short { break-before: auto; } nav { break-before: avoid; }
  .figures, .main { grid-template-columns: 1fr 1fr; gap: .8rem; } h2, h3, .held { break-after: avoid; }
  .held > div, tr { break-inside: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
""".replace("CURVES", "\n".join(
    f".curve.{name} {{ stroke: var(--{name}); }} .band.{name} {{ fill: var(--{name}); }} "
    f".mark.{name} {{ fill: var(--{name}); stroke: var(--{name}); }}"
    for name in [*(f"c{i}" for i in range(8)), "limit"]))
