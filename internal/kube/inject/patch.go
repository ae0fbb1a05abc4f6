package inject

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	corev1 "k8s.io/api/core/v1"
)

// CreatePatch returns a JSON patch (RFC 6902) that changes from into to. Neither is changed. Equal
// pods yield an empty list, and equal arguments the same bytes.
func CreatePatch(from, to *corev1.Pod) ([]byte, error) {
	before, err := json.Marshal(from)
	if err != nil {
		return nil, fmt.Errorf("create a JSON patch: %w", err)
	}
	after, err := json.Marshal(to)
	if err != nil {
		return nil, fmt.Errorf("create a JSON patch: %w", err)
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("create a JSON patch: %w", err)
	}
	slices.SortFunc(operations, compareOperations)
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("create a JSON patch: %w", err)
	}
	return text, nil
}

// compareOperations orders the operations of a patch, which jsonpatch returns in the random order
// of maps. Additions and replacements come first, in the order of paths: elements are appended to a
// list by ascending index. Removals follow in the reverse order: elements at the end of a list are
// removed by descending index. The indexes of changed elements are lower than both.
func compareOperations(a, b jsonpatch.Operation) int {
	order := comparePaths(a.Path, b.Path)
	switch removesA, removesB := a.Operation == "remove", b.Operation == "remove"; {
	case removesA && removesB:
		return -order
	case removesA:
		return 1
	case removesB:
		return -1
	default:
		return order
	}
}

// comparePaths compares paths element by element. A shorter element comes first, so that indexes
// are in the order of numbers.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

// ParsePathEnv returns the environment variables in the path of a webhook, empty if there are none.
// The path is /inject/cluster/NAME/net/NAME and further pairs of variable and value, in which
// --slash-- is a slash; a variable without a value is skipped. In the older form,
// /inject/:ENV:NAME=VALUE:ENV:…, --slash-- is not replaced. The names cluster and net set
// ISTIO_META_CLUSTER_ID and ISTIO_META_NETWORK in both forms; others become upper case.
func ParsePathEnv(path string) map[string]string {
	env := map[string]string{}
	set := func(name, value string) {
		switch name {
		case "":
		case "cluster":
			env["ISTIO_META_CLUSTER_ID"] = value
		case "net":
			env["ISTIO_META_NETWORK"] = value
		default:
			env[strings.ToUpper(name)] = value
		}
	}
	parts := strings.SplitN(strings.TrimSuffix(path, "/"), "/", 3)
	if len(parts) < 3 {
		return env
	}
	if old, ok := strings.CutPrefix(parts[2], ":ENV:"); ok {
		for pair := range strings.SplitSeq(old, ":ENV:") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				set(name, value)
			}
		}
		return env
	}
	for pair := range slices.Chunk(strings.Split(parts[2], "/"), 2) {
		if len(pair) == 2 {
			set(pair[0], strings.ReplaceAll(pair[1], "--slash--", "/"))
		}
	}
	return env
}
