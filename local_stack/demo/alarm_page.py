"""The page that lists alarms as they come. It needs nothing but its own server."""

# scripts and styles of its own alone, and no other server
POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
)
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Alarms</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 46rem; }
  table { border-collapse: collapse; width: 100%; }
  th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; }
  .number { font-variant-numeric: tabular-nums; text-align: right; }
</style>
<h1>Alarms</h1>
<p id="how">Waiting for the event stream …</p>
<table>
  <thead><tr>
    <th>at</th><th>device</th><th class="number">value</th><th class="number">age, ms</th>
  </tr></thead>
  <tbody id="alarms"></tbody>
</table>
<p>The age is the time from when Kafka had the payload to when its alarm was shown here.</p>
<script>
  const ROWS_MAX = 200;
  const how = document.getElementById("how"), alarms = document.getElementById("alarms");
  const events = new EventSource("/events");
  let count = 0;
  events.onopen = () => { how.textContent = `${count} alarms; listening`; };
  events.onerror = () => { how.textContent = `${count} alarms; the event stream is away`; };
  events.onmessage = (message) => {
    const alarm = JSON.parse(message.data), age = Date.now() - alarm.arrived_ms;
    const at = new Date().toLocaleTimeString();
    const row = alarms.insertRow(0);
    for (const said of [at, alarm.entity_id, alarm.data.value, age]) {
      const cell = row.insertCell();
      cell.textContent = said;
      if (typeof said === "number") cell.className = "number";
    }
    if (alarms.rows.length > ROWS_MAX) alarms.deleteRow(-1);
    how.textContent = `${++count} alarms; listening`;
  };
</script>
"""
