package debug

import "strconv"

// formatCount returns n in decimal.
func formatCount(n int) string { return strconv.Itoa(n) }

// byteCount returns a size in istiod's format, in powers of 1000: "434B", "6.8kB". The largest unit
// is EB.
func byteCount(n int) string {
	if n < 1000 {
		return formatCount(n) + "B"
	}
	size, units := float64(n)/1000, "kMGTPE"
	for size >= 1000 && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + units[:1] + "B"
}
