package stream

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// NameLimits bounds the resource names that a client may subscribe to, for each type. The stream of
// a client that exceeds them ends: with fewer names than it asked for it would wait for resources
// that never come.
type NameLimits struct {
	// Names is the number of names, Bytes their length together.
	Names, Bytes int
}

// exceeded returns which limit the names of a subscription exceed, "" if none. before are the names
// that were checked last.
func (l NameLimits) exceeded(s *subscription, before []string) string {
	switch n := len(s.names); {
	case n == 0, n == len(before) && &s.names[0] == &before[0]:
		return ""
	case l.Names > 0 && n > l.Names:
		return fmt.Sprintf("%d resource names of %s exceed the limit of %d for each type (MESHPILOT_XDS_MAX_NAMES)",
			n, api.ShortType(s.URL), l.Names)
	case l.Bytes > 0:
		bytes := 0
		for _, name := range s.names {
			bytes += len(name)
		}
		if bytes > l.Bytes {
			return fmt.Sprintf("resource names of %s with %d bytes exceed the limit of %d for each type (MESHPILOT_XDS_MAX_NAME_BYTES)",
				api.ShortType(s.URL), bytes, l.Bytes)
		}
	}
	return ""
}
