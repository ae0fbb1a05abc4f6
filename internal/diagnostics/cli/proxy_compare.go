package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// comparison is the difference between what a proxy was sent of one type and what Envoy has.
type comparison struct {
	// Missing are resources that Envoy does not have, Extra are resources that it was not sent.
	Missing   []string `json:"missing,omitempty"`
	Extra     []string `json:"extra,omitempty"`
	Different []string `json:"different,omitempty"`

	diffs []string // of Different
}

// String returns "MATCH", or the numbers of resources that differ, are missing or are extra.
func (x comparison) String() string {
	var parts []string
	for _, p := range []struct {
		list []string
		name string
	}{{x.Different, "differ"}, {x.Missing, "missing"}, {x.Extra, "extra"}} {
		if len(p.list) > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", len(p.list), p.name))
		}
	}
	if len(parts) == 0 {
		return "MATCH"
	}
	return strings.Join(parts, ", ")
}

// compareWithEnvoy compares what a proxy was sent with the config dump of its Envoy. The keys of
// the result are the last parts of type URLs: clusters, listeners, routes and extension
// configurations. address is that of the admin interface, or "" for a port-forward. Bootstrap,
// endpoints and secrets are left out. It returns an error if one of both cannot be read.
func (a *pageClient) compareWithEnvoy(c *cobra.Command, name, address string) (map[string]comparison, error) {
	var body json.RawMessage
	if err := a.readPage(c, "config_dump", url.Values{"proxyID": {name}}, &body); err != nil {
		return nil, err
	}
	sent, err := readDump(body)
	if err != nil {
		return nil, err
	}
	has, err := a.readDynamicDump(c.Context(), name, address)
	if err != nil {
		return nil, err
	}
	return map[string]comparison{
		"Cluster": compareResources(sent.Clusters, has.Clusters,
			func(x cluster) (string, json.RawMessage) { return x.Name, x.raw }),
		"Listener": compareResources(sent.Listeners, has.Listeners,
			func(x listener) (string, json.RawMessage) { return x.Name, x.raw }),
		"RouteConfiguration": compareResources(sent.Routes, has.Routes,
			func(x routeConfig) (string, json.RawMessage) { return x.Name, x.raw }),
		"TypedExtensionConfig": compareResources(sent.Extensions, has.Extensions,
			func(x extension) (string, json.RawMessage) { return x.Name, x.raw }),
	}, nil
}

// readDynamicDump reads the config dump of an Envoy, through the admin interface at address if that
// is not empty, else of the pod name. Its bootstrap and static resources are left out, and it has
// no endpoints. It returns an error if Envoy cannot be reached.
func (a *pageClient) readDynamicDump(ctx context.Context, name, address string) (*dump, error) {
	x, err := a.openAdmin(name, address)
	if err != nil {
		return nil, err
	}
	defer x.close()
	body, err := x.get(ctx, "/config_dump")
	if err != nil {
		return nil, err
	}
	var top struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	if err := json.Unmarshal(body, &top); err != nil {
		return nil, fmt.Errorf("read Envoy's config dump: %w", err)
	}
	for _, section := range top.Configs {
		for field := range section {
			if strings.HasPrefix(field, "static_") || strings.HasPrefix(field, "bootstrap") {
				delete(section, field)
			}
		}
	}
	if body, err = json.Marshal(top); err != nil {
		return nil, err
	}
	return readDump(body)
}

// compareResources compares resources by their names and parsed JSON, regardless of order. of
// returns both for a resource; of equal names the last one is compared. In the result, Missing are
// resources that Envoy does not have, and Extra are resources that it was not sent. All lists are
// sorted by name. diffs describes each resource of Different.
func compareResources[T any](sent, has []T, of func(T) (string, json.RawMessage)) (x comparison) {
	byName := func(list []T) map[string]any {
		m := map[string]any{}
		for _, r := range list {
			name, raw := of(r)
			var v any
			_ = json.Unmarshal(raw, &v) // it is of a dump that was parsed
			m[name] = v
		}
		return m
	}
	want, got := byName(sent), byName(has)
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			x.Missing = append(x.Missing, name)
		case !reflect.DeepEqual(w, g):
			x.Different = append(x.Different, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			x.Extra = append(x.Extra, name)
		}
	}
	for _, list := range [][]string{x.Missing, x.Extra, x.Different} {
		slices.Sort(list)
	}
	for _, name := range x.Different {
		x.diffs = append(x.diffs, name+" (sent -> in Envoy):\n  "+strings.Join(jsonDifferences("", want[name],
			got[name]), "\n  ")+"\n")
	}
	return x
}

// jsonDifferences returns a line for each value that differs between a and b: "~ PATH: A -> B", "-
// PATH: A" or "+ PATH: B". path is the path of both. It returns nil if they are equal. Objects are
// compared by key, where a missing key is nil, lists of equal length by index, and all others as a
// whole.
func jsonDifferences(path string, a, b any) (lines []string) {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	x, isMap := a.(map[string]any)
	y, isMapToo := b.(map[string]any)
	if isMap && isMapToo {
		keys := slices.Collect(maps.Keys(x))
		for k := range y {
			if _, ok := x[k]; !ok {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			lines = append(lines, jsonDifferences(strings.TrimPrefix(path+"."+k, "."), x[k], y[k])...)
		}
		return lines
	}
	v, isList := a.([]any)
	w, isListToo := b.([]any)
	if isList && isListToo && len(v) == len(w) {
		for i := range v {
			lines = append(lines, jsonDifferences(fmt.Sprintf("%s[%d]", path, i), v[i], w[i])...)
		}
		return lines
	}
	switch {
	case a == nil:
		return []string{"+ " + path + ": " + jsonText(b)}
	case b == nil:
		return []string{"- " + path + ": " + jsonText(a)}
	default:
		return []string{"~ " + path + ": " + jsonText(a) + " -> " + jsonText(b)}
	}
}

// jsonText returns a value as JSON in one line, or the text of an error.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
