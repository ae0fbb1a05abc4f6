package apicoverage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// gatewayCases is the directory of the cases of the Gateway API, which have the names "gatewayapi/NAME".
const gatewayCases = "internal/ingest/registry/gatewayapi/testdata"

// documents are the objects of a case as JSON.
type documents []map[string]any

func readDocuments(name string) (documents, error) {
	short, ok := strings.CutPrefix(name, "gatewayapi/")
	if !ok {
		return nil, fmt.Errorf("case %q: cases of the Gateway API are gatewayapi/NAME", name)
	}
	archive, err := txtar.ParseFile(filepath.Join(root, gatewayCases, short+".txtar"))
	if err != nil {
		return nil, err
	}
	for _, f := range archive.Files {
		if f.Name == "config.yaml" {
			return decodeDocuments(f.Data)
		}
	}
	return nil, fmt.Errorf("case %q has no config.yaml", name)
}

func decodeDocuments(text []byte) (documents, error) {
	var list documents
	decoder := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var d map[string]any
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		if d != nil {
			list = append(list, d)
		}
	}
}

// of returns the specs of the subject's objects.
func (d documents) of(s gatewaySubject) []any {
	var list []any
	for _, o := range d {
		version, _ := o["apiVersion"].(string)
		group, _, _ := strings.Cut(version, "/")
		if info, _ := api.Info(s.Kind); o["kind"] == s.Kind.Name() && group == info.Group {
			list = append(list, o["spec"])
		}
	}
	return list
}

// edited returns a copy in which change was called for each object that sets the field, a value in
// lists included. Of an enum value, "type=Exact", the field must have that value.
func (d documents) edited(s gatewaySubject, field string, change func(in map[string]any, name string)) (documents, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var out documents
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	for _, spec := range out.of(s) {
		visitJSON(spec, field, change)
	}
	return out, nil
}

// sets reports whether an object of the subject sets a field.
func (d documents) sets(s gatewaySubject, field string) bool {
	found := false
	for _, spec := range d.of(s) {
		visitJSON(spec, field, func(map[string]any, string) { found = true })
	}
	return found
}

// visitJSON calls do for every JSON object at a path that has the last name of the path.
func visitJSON(node any, field string, do func(in map[string]any, name string)) {
	path, value, isValue := strings.Cut(field, "=")
	name, rest, deeper := strings.Cut(path, ".")
	switch n := node.(type) {
	case []any:
		for _, x := range n {
			visitJSON(x, field, do)
		}
	case map[string]any:
		v, set := n[name]
		list, _ := v.([]any)
		switch {
		case !set:
		case deeper:
			visitJSON(v, rest+strings.TrimPrefix(field, path), do)
		case !isValue, v == value, slices.Contains(list, any(value)):
			do(n, name)
		}
	}
}

// otherJSON returns a value that differs from v. Steps lead to different values. others are the
// values of an enum.
func otherJSON(v any, others []string, step int) any {
	switch v := v.(type) {
	case string:
		if len(others) > 1 {
			others = slices.DeleteFunc(slices.Clone(others), func(o string) bool { return o == v })
			return others[step%len(others)]
		}
		return anotherText(v, step)
	case bool:
		return !v
	case float64:
		return v + 1 + float64(step)
	case []any:
		out := slices.Clone(v)
		if len(out) > 0 {
			out[len(out)-1] = otherJSON(out[len(out)-1], others, step)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = otherJSON(x, nil, step)
		}
		return out
	default:
		return v
	}
}

// gatewayResult is the result of a case: the resources of all proxies and the ports of deployed
// gateways, and the Problems.
type gatewayResult struct {
	text     string
	problems []config.Problem
}

// errors returns the number of Problems with the severity Error.
func (r gatewayResult) errors() (n int) {
	for _, p := range r.problems {
		if p.Severity == config.Error {
			n++
		}
	}
	return n
}

// result converts the objects of a case and generates the configuration of the proxies of each Gateway
// and of a sidecar in each namespace. Objects that cannot be decoded have the result "failed".
func (d documents) result(t testing.TB) gatewayResult {
	t.Helper()
	var text bytes.Buffer
	for _, o := range d {
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "# document\n%s\n---\n", body)
	}
	objects, err := fixture.Decode(text.Bytes())
	if err != nil {
		return gatewayResult{text: "failed: " + err.Error()}
	}
	m := fixture.New(t, text.Bytes(), nil)
	var out strings.Builder
	table := translate.NewTable(translate.Options{})
	for _, p := range gatewayProxies(objects) {
		fmt.Fprintf(&out, "%s\n%s", p, proxyResources(t, table, m, p))
	}
	deploying := gatewayapi.New(gatewayapi.Options{Deploys: true})
	deploying.Convert(fixture.Events(0, objects...))
	deployed := maps.Collect(deploying.Deployments().All())
	for _, k := range slices.SortedFunc(maps.Keys(deployed), config.Key.Compare) {
		fmt.Fprintf(&out, "deployed %s: %s %v\n", k, deployed[k].Class, deployed[k].Ports)
	}
	return gatewayResult{out.String(), m.Snapshot().Problems()}
}

// proxyResources returns the resources of a proxy, or why they cannot be generated.
func proxyResources(t testing.TB, table *translate.Table, m *fixture.Mesh, proxy string) (text string) {
	t.Helper()
	defer func() {
		if failed, ok := recover().(failure); ok {
			text = "failed: " + string(failed) + "\n"
		}
	}()
	return bodies(xdsdump.AllResources(t, table, m.View(fixture.Proxy(t, []byte(proxy))))...)
}

// gatewayProxies describes the proxies of a case.
func gatewayProxies(objects []*config.Config) []string {
	var list []string
	for _, o := range objects {
		if o.Kind == api.KubernetesGateway {
			list = append(list, fmt.Sprintf("{type: router, namespace: %s, labels: {gateway.networking.k8s.io/gateway-name: %s}}", o.Namespace, o.Name))
		}
		if o.Namespace != "" {
			list = append(list, fmt.Sprintf("{type: sidecar, namespace: %s}", o.Namespace))
		}
	}
	list = append(list, "{type: router, namespace: default, labels: {app: gateway}}")
	slices.Sort(list)
	return slices.Compact(list)
}
