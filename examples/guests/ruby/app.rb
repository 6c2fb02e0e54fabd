# Works before its first request: makes a table of prices. Each call of handle answers a request,
# whose body names an item.
PRICE_CENTS = (0...1000).to_h { |i| ["item-#{i}", 100 + i * i % 9973] }
$requests = 0

def handle
  $requests += 1
  item = $stdin.read
  cents = PRICE_CENTS.fetch(item, "none")
  $stdout.write("#{item}: #{cents} cents, requests: #{$requests}\n")
  $stdout.flush
end
