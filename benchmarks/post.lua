-- wrk: sends the requests of a file, one after the other and again. args: FILE
-- the file: a length in decimal, a newline, as many bytes, and so on
local requests, i = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  while true do
    local length = file:read("*n")
    if not length then break end
    file:read(1)
    requests[#requests + 1] = file:read(length)
  end
  file:close()
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
