package stream

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// NameLimits bounds the resource names that a client may subscribe to, for each type. The stream of
// a client that exceeds a limit is ended. If only some of the names were served, the client would
// wait for the other resources without end.
type NameLimits struct {
	// Names is the maximum number of names, and Bytes is the maximum sum of their lengths. 0 means
	// no limit.
	Names, Bytes int
}

// exceeded returns an error message if the names of a subscription exceed a limit, and ""
// otherwise. before is the list of names before the request; if s.names is still the same list, it
// is not checked again. Limits that are not positive do not apply.
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
			return fmt.Sprintf(
				"resource names of %s with %d bytes exceed the limit of %d for each type (MESHPILOT_XDS_MAX_NAME_BYTES)",
				api.ShortType(s.URL), bytes, l.Bytes)
		}
	}
	return ""
}
