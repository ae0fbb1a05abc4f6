package workload

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// Mark is one change, as it can be found in xDS resources. Numbers start at 1.
type Mark struct {
	Change Change
	Number int
}

// Marks are strings or numbers that a change puts into the config and that come out unchanged in
// the xDS bytes. They have a fixed width, so that none is the beginning of another.
const (
	endpointNet   = "10.251." // endpoint address 10.251.1xx.1xx
	headerPrefix  = "mk-rt-"  // request header value of a VirtualService
	servicePrefix = "mk-svc-" // name of an added service
	poolBase      = 2_000_000 // connectionPool.tcp.maxConnections of a DestinationRule, up to
	poolMax       = 2_097_151 // the largest varint of three bytes

	digitsOfMark = 6
	perOctet     = 150 // octets 100 to 249 have three digits
	maxEndpoint  = perOctet * perOctet
)

// HeaderValue returns the header value of a route that carries the mark of a RouteEdit.
func HeaderValue(number int) string { return fmt.Sprintf("%s%0*d", headerPrefix, digitsOfMark, number) }

func endpointAddress(number int) string {
	return fmt.Sprintf("%s%d.%d", endpointNet, 100+number/perOctet, 100+number%perOctet)
}

// FindMarks returns the marks in the body of a resource.
func FindMarks(t wire.Type, body []byte) []Mark {
	f := finder{body: body, seen: map[Mark]bool{}}
	f.findMarks(servicePrefix, AddService, decimalMark)
	switch t {
	case wire.EDS:
		f.findMarks(endpointNet, EndpointEdit, func(rest []byte) int {
			if len(rest) < 7 || rest[3] != '.' {
				return 0
			}
			a, b := parseDigits(rest, 3), parseDigits(rest[4:], 3)
			if a < 100 || b < 100 {
				return 0
			}
			return (a-100)*perOctet + b - 100
		})
	case wire.RDS:
		f.findMarks(headerPrefix, RouteEdit, decimalMark)
	case wire.CDS:
		// circuit_breakers.thresholds.max_connections: field 2, a UInt32Value of 4 bytes that holds
		// a varint of 3.
		f.findMarks("\x12\x04\x08", RuleEdit, func(rest []byte) int {
			v, n := protowire.ConsumeVarint(rest)
			if n != 3 || v <= poolBase || v > poolMax {
				return 0
			}
			return int(v) - poolBase
		})
	}
	return f.marks
}

// FindRemoval returns the mark of the removed service that the name of a removed resource contains.
func FindRemoval(t wire.Type, name []byte) (Mark, bool) {
	_, rest, ok := bytes.Cut(name, []byte(servicePrefix))
	if t != wire.CDS || !ok {
		return Mark{}, false
	}
	n := decimalMark(rest)
	return Mark{RemoveService, n}, n > 0
}

type finder struct {
	body  []byte
	seen  map[Mark]bool
	marks []Mark
}

func (f *finder) findMarks(before string, c Change, number func(rest []byte) int) {
	for rest := f.body; ; {
		i := bytes.Index(rest, []byte(before))
		if i < 0 {
			return
		}
		rest = rest[i+len(before):]
		if m := (Mark{c, number(rest)}); m.Number > 0 && !f.seen[m] {
			f.seen[m] = true
			f.marks = append(f.marks, m)
		}
	}
}

func decimalMark(rest []byte) int { return parseDigits(rest, digitsOfMark) }

// parseDigits parses a number of n digits. It returns -1 for another text.
func parseDigits(b []byte, n int) int {
	if len(b) < n {
		return -1
	}
	v := 0
	for _, c := range b[:n] {
		if c < '0' || c > '9' {
			return -1
		}
		v = v*10 + int(c-'0')
	}
	return v
}
