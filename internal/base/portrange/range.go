package portrange

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Range is the ports from First to Last, or a single port if they are equal.
type Range struct{ First, Last uint16 }

// Contains reports whether the range includes a port.
func (r Range) Contains(port uint16) bool { return r.First <= port && port <= r.Last }

// Parse parses a port, or a range in the syntax of iptables (8000:8010, where one end may be
// missing) or of nft (8000-8010). Port 0 is allowed. A range that ends before it begins is an
// error.
func Parse(s string) (Range, error) {
	invalid := fmt.Errorf("%q is not a port (0 to 65535) or a range such as 8000:8010", s)
	first, last, isRange := strings.Cut(s, ":")
	if isRange {
		first, last = cmp.Or(first, "0"), cmp.Or(last, "65535")
	} else if first, last, isRange = strings.Cut(s, "-"); !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return Range{}, invalid
	}
	to, err := strconv.ParseUint(last, 10, 16)
	if err != nil || to < from || s == ":" {
		return Range{}, invalid
	}
	return Range{First: uint16(from), Last: uint16(to)}, nil
}
