-- wrk: POSTs of 280 bytes for a thousand entities. args: PATH, then headers as NAME=VALUE
local requests, i = {}, 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for n = 2, #args do
    local name, value = args[n]:match("^([^=]+)=(.*)$")
    headers[name] = value
  end
  for n = 1, 1000 do
    local body = string.format('{"value": %d.5, "seq": %d, "note": "', n % 100, n)
    body = body .. string.rep("x", 278 - #body) .. '"}'
    requests[n] = wrk.format("POST", string.format("%s/device-%04d", args[1], n), headers, body)
  end
end

function request()
  i = i % #requests + 1
  return requests[i]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\nJSON {"requests":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f,"bad":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, e.status + e.connect + e.read + e.write + e.timeout))
end
