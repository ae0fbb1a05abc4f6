package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	corev1 "k8s.io/api/core/v1"
)

// CreatePatch returns a JSON patch (RFC 6902) that changes from into to. Neither is changed. Equal
// pods yield an empty list, and the order of several operations differs between calls.
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
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("create a JSON patch: %w", err)
	}
	return text, nil
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
