package debug

import "strconv"

func count(n int) string { return strconv.Itoa(n) }

// byteCount writes a size as istiod does: "434B", "6.8kB", in powers of 1000.
func byteCount(n int) string {
	if n < 1000 {
		return count(n) + "B"
	}
	size, units := float64(n)/1000, "kMGTPE"
	for size >= 1000 && len(units) > 1 {
		size, units = size/1000, units[1:]
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + units[:1] + "B"
}
