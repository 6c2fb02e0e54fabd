-- Returns what is timed: benchmarks of tables, strings, closures and methods, whose results it gives as a string.

local function sieve(limit)
  local composite, count = {}, 0
  for n = 2, limit do
    if not composite[n] then
      count = count + 1
      for multiple = n * n, limit, n do composite[multiple] = true end
    end
  end
  return count
end

local function queens(n)
  local columns, rising, falling, found = {}, {}, {}, 0
  local function place(row)
    if row > n then
      found = found + 1
      return
    end
    for column = 1, n do
      if not columns[column] and not rising[row + column] and not falling[row - column] then
        columns[column], rising[row + column], falling[row - column] = true, true, true
        place(row + 1)
        columns[column], rising[row + column], falling[row - column] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end

local text = string.rep("the quick brown fox jumps over the lazy dog, and the dog does not mind; ", 20)

local function words()
  local counts, order = {}, {}
  for word in text:gmatch("%a+") do
    if not counts[word] then
      counts[word] = 0
      order[#order + 1] = word
    end
    counts[word] = counts[word] + 1
  end
  table.sort(order)
  for i, word in ipairs(order) do order[i] = word:upper() .. "=" .. counts[word] end
  return table.concat(order, " "):gsub("O(%a)", "0%1"):sub(1, 40)
end

local function compose(functions)
  return function(x)
    for i = 1, #functions do x = functions[i](x) end
    return x
  end
end

local function closures(turns)
  local functions = {}
  for i = 1, 8 do
    functions[i] = function(x) return (x * 3 + i) % 65537 end
  end
  local all, x = compose(functions), 1
  for _ = 1, turns do x = all(x) end
  return x
end

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return Vector.new(a.x + b.x, a.y + b.y) end

function Vector.new(x, y)
  return setmetatable({ x = x, y = y }, Vector)
end

function Vector:scaled(by)
  return Vector.new(self.x * by, self.y * by)
end

local function vectors(turns)
  local at, step = Vector.new(0, 0), Vector.new(0.5, -0.25)
  for i = 1, turns do at = at + step:scaled(i % 4) end
  return string.format("%.2f:%.2f", at.x, at.y)
end

local function mandelbrot(size)
  local inside = 0
  for row = 0, size - 1 do
    for column = 0, size - 1 do
      local cr, ci = column * 3 / size - 2.25, row * 2.5 / size - 1.25
      local zr, zi, turns = 0.0, 0.0, 0
      while turns < 40 and zr * zr + zi * zi <= 4 do
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
        turns = turns + 1
      end
      if turns == 40 then inside = inside + 1 end
    end
  end
  return inside
end

return function()
  local results = {
    "primes " .. sieve(5000),
    "queens " .. queens(6),
    "words " .. words(),
    "closures " .. closures(500),
    "vectors " .. vectors(1000),
    "mandelbrot " .. mandelbrot(24),
  }
  return table.concat(results, "\n")
end
