package stream

import (
	"strings"
	"testing"
)

// TestDumpsAreOmitted checks messages as Envoy sends them, which contain a dump of the refused
// message between the name of the resource and the reason: the dump is removed.
func TestDumpsAreOmitted(t *testing.T) {
	const stats = "\ncounters {\n  stat {\n    name: \"x\"\n  }\n}\n: Proto constraint validation failed (ConfigValidationError.StatPrefix: value length must be at least 1 characters)"
	const reason = "Proto constraint validation failed (ConfigValidationError.StatPrefix: value length must be at least 1 characters)"
	for name, tc := range map[string]struct{ message, want string }{
		"Envoy 1.36, cluster": {
			"Invalid duration: Expected positive duration: seconds: -1\n",
			"Invalid duration: Expected positive duration: seconds: -1",
		},
		"Envoy 1.37, two listeners": {
			"Error adding/updating listener(s) 0.0.0.0_80: goo.gle/debugonly  " + stats + "\n10.0.0.1_80: goo.gle/debugonly  " + stats + "\n",
			"Error adding/updating listener(s) 0.0.0.0_80: " + reason + "\n10.0.0.1_80: " + reason,
		},
		"Envoy 1.38": {"Error adding/updating listener(s) a: goo.gle/debugproto   " + stats, "Error adding/updating listener(s) a: " + reason},
		"Envoy 1.40, of two one with a dump": {
			"Error adding/updating listener(s) a: Either 'stat_prefix' or 'stats_scope' must be configured, but not both.\nb: goo.gle/debugstr  " + stats + "\n",
			"Error adding/updating listener(s) a: Either 'stat_prefix' or 'stats_scope' must be configured, but not both.\nb: " + reason,
		},
		"the dump is the reason": {
			"Invalid duration: Expected positive duration: goo.gle/debugstr  \nseconds: -1\n",
			"Invalid duration: Expected positive duration: seconds: -1",
		},
		"the dump is the reason, and another follows": {
			"c1: negative: goo.gle/debugstr  \nseconds: -1\n\nc2: goo.gle/debugstr  " + stats,
			"c1: negative: seconds: -1\n\nc2: " + reason,
		},
		"an empty message": {"a: goo.gle/debugstr \n: it is empty", "a: it is empty"},
		"longer than is kept": {
			"Error adding/updating listener(s) a: goo.gle/debugstr\n" + strings.Repeat("field: 1\n", MaxNackMessage) + ": why", "Error adding/updating listener(s) a: why",
		},
		"a text of a user":  {"no goo.gle/debugging here\nand\n: there", "no goo.gle/debugging here\nand\n: there"},
		"a mark at the end": {"a: goo.gle/debugstr", "a: goo.gle/debugstr"},
		"gRPC":              {"error parsing \"LDS\" response: resource \"a\": x;\nresource \"b\": y", "error parsing \"LDS\" response: resource \"a\": x;\nresource \"b\": y"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := withoutDumps(tc.message); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
