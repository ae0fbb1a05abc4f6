package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestInvalidRulesAffectNothingElse applies every rule that validation has a word on, and more than
// it lets through, to one host. What is made for other hosts stays as it is to the byte, and what
// validation does let through Envoy loads.
func TestInvalidRulesAffectNothingElse(t *testing.T) {
	m := fixture.New(t, []byte(threeServices), nil)
	v := fixture.Proxy(t, []byte("labels: {app: client}"))
	before := set(t, m.View(v))
	var accepted envoy.Config
	seen := 0
	for name, text := range specsOfValidation(t) {
		info, _ := api.Info(api.DestinationRule)
		read, problems := decode.Spec(info, text)
		spec, ok := read.(*networking.DestinationRule)
		if !ok || len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		for _, host := range []string{spec.GetHost(), "c.example.com"} {
			spec := proto.CloneOf(spec)
			spec.Host = host
			c, err := config.New(
				config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "bad"}},
				spec,
			)
			if err != nil {
				t.Fatal(err)
			}
			m.Send(mesh.Event{Config: c})
			after := set(t, m.View(v))
			for _, was := range before.List() {
				if strings.HasSuffix(was.Name, "c.example.com") {
					continue
				}
				if is := after.Get(was.Name); is == nil || !bytes.Equal(is.Body, was.Body) && !applies(spec, was.Name) {
					t.Errorf("%s: %s is not as it was", name, was.Name)
				}
			}
			seen++
			if refused(c) {
				continue
			}
			for _, cl := range envoy.FromResources(t, after.List()...).Clusters {
				cl.Name = name + " " + host + " " + cl.GetName()
				accepted.Clusters = append(accepted.Clusters, cl)
			}
		}
	}
	if seen < 50 || len(accepted.Clusters) < 100 {
		t.Errorf("%d rules and %d clusters show little", seen, len(accepted.Clusters))
	}
	t.Run("load", func(t *testing.T) { envoy.Validate(t, accepted) })
}

// applies reports whether a rule is for the host of a cluster.
func applies(spec *networking.DestinationRule, cluster string) bool {
	n, err := mesh.ParseClusterName(cluster)
	return err == nil && mesh.Hostname(spec.GetHost()).Covers(n.Host)
}

// specsOfValidation returns the specs of the test cases of validation in JSON, by their names.
func specsOfValidation(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../model/config/testdata/validate/DestinationRule*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	specs := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range txtar.Parse(text).Files {
			for _, one := range strings.Split("\n"+string(section.Data), "\n--- ")[1:] {
				shows, spec, _ := strings.Cut(one, "\n")
				js, err := yaml.YAMLToJSON([]byte(spec))
				if err != nil {
					t.Fatalf("%s: %s: %v", file, shows, err)
				}
				specs[filepath.Base(file)+" "+shows] = js
			}
		}
	}
	return specs
}
