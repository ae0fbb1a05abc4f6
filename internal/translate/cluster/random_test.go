package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// randomRules is how many rules TestEnvoyAcceptsValidConfiguration tries; Envoy loads some
// thousands in a second.
const randomRules = 250

// TestEnvoyAcceptsValidConfiguration makes random DestinationRules that validation takes, and has
// Envoy load the clusters of services of each kind to which they apply.
func TestEnvoyAcceptsValidConfiguration(t *testing.T) {
	envoy.RequireBinary(t)
	random := rand.New(rand.NewPCG(1, 2))
	m := fixture.New(t, nil, nil)
	used := map[string]int{}
	var rules []string
	for i := range randomRules {
		host := fmt.Sprintf("h%d.example.com", i)
		if randomService(i, "").Resolution == mesh.DynamicDNS {
			host = "*." + host
		}
		c := randomRule(t, random, i, host)
		fields := map[string]bool{}
		rule := config.Spec[*networking.DestinationRule](c)
		collect("", rule.ProtoReflect(), fields)
		for f := range fields {
			used[f]++
		}
		rules = append(rules, protojson.Format(rule))
		m.Send(mesh.Event{Service: randomService(i, mesh.Hostname(host))}, mesh.Event{Config: c})
	}
	for _, path := range config.LeafPaths(new(networking.DestinationRule)) {
		if path != "exportTo" && used[groupPath(path)] < 3 {
			t.Errorf("%s is set in %d of %d random rules: the test is not effective", path,
				used[groupPath(path)], randomRules)
		}
	}
	for _, proxy := range []string{
		"{socketMark: 7, labels: {app: a}, certificate: [/etc/certs/cert.pem, /etc/certs/key.pem, /etc/certs/ca.pem]}",
		"{type: router}",
	} {
		clusters, err := resource.NewSet(NewGenerator().All(m.View(fixture.Proxy(t, []byte(proxy)))))
		if err != nil {
			t.Fatal(err)
		}
		if !t.Run(proxy, func(t *testing.T) { envoy.Validate(t, envoy.FromResources(t, clusters.List()...)) }) {
			t.Log(strings.Join(rules, "\n")) // Envoy names the cluster, and so the rule
		}
	}
}

// randomRule makes a valid rule: groups of settings, each valid by itself, at all levels.
func randomRule(t *testing.T, random *rand.Rand, i int, host string) *config.Config {
	t.Helper()
	object := func(rule *networking.DestinationRule) *config.Config {
		c, err := config.New(
			config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "default", Name: fmt.Sprintf("r%d", i)}},
			rule,
		)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	policy := func() *networking.TrafficPolicy {
		p := new(networking.TrafficPolicy)
		fields := p.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if f.IsList() || random.IntN(2) == 0 {
				continue
			}
			for range 100 {
				alone := new(networking.TrafficPolicy)
				fill(random, alone.ProtoReflect().Mutable(f).Message())
				if !refused(object(&networking.DestinationRule{Host: host, TrafficPolicy: alone})) {
					p.ProtoReflect().Set(f, alone.ProtoReflect().Get(f))
					break
				}
			}
		}
		if p.Tunnel != nil && p.ProxyProtocol != nil { // each is well without the other
			p.Tunnel = nil
		}
		if proto.Size(p) == 0 {
			p.LoadBalancer = new(networking.LoadBalancerSettings)
		}
		return p
	}
	rule := &networking.DestinationRule{Host: host, TrafficPolicy: policy()}
	for _, name := range []string{"v1", "v2"} {
		rule.Subsets = append(
			rule.Subsets,
			&networking.Subset{Name: name, Labels: map[string]string{"version": name}, TrafficPolicy: policy()},
		)
	}
	for _, p := range []*networking.TrafficPolicy{rule.TrafficPolicy, rule.Subsets[0].TrafficPolicy} {
		at := policy()
		settings := &networking.TrafficPolicy_PortTrafficPolicy{Port: &networking.PortSelector{Number: 81}}
		settings.ConnectionPool, settings.LoadBalancer, settings.OutlierDetection, settings.Tls = at.ConnectionPool, at.LoadBalancer, at.OutlierDetection, at.Tls
		if at.ConnectionPool != nil || at.LoadBalancer != nil || at.OutlierDetection != nil || at.Tls != nil {
			p.PortLevelSettings = append(p.PortLevelSettings, settings)
		}
	}
	if random.IntN(3) == 0 {
		rule.WorkloadSelector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "a"}}
	}
	c := object(rule)
	for _, p := range config.Validate(c) {
		if p.Severity == config.Error {
			t.Fatalf("a rule of valid parts is refused: %s\n%s", p, protojson.Format(rule))
		}
	}
	return c
}

func refused(c *config.Config) bool {
	for _, p := range config.Validate(c) {
		if p.Severity == config.Error {
			return true
		}
	}
	return false
}

// randomService returns services of every resolution and protocol in turn.
func randomService(i int, host mesh.Hostname) *mesh.Service {
	resolutions := []mesh.Resolution{
		mesh.Static, mesh.DNS, mesh.DNSRoundRobin, mesh.Passthrough, mesh.DynamicDNS,
		mesh.Static,
	}
	protocols := []mesh.Protocol{mesh.HTTP, mesh.Auto, mesh.GRPC, mesh.TCP, mesh.TLS}
	return mesh.Service{
		ServiceKey: mesh.ServiceKey{
			Namespace: "default",
			Host:      host,
		}, Provider: mesh.External, Resolution: resolutions[i%len(resolutions)],
		Ports: []mesh.Port{
			{Name: "a", Number: 80, Protocol: protocols[i%len(protocols)], Target: 8080},
			{Name: "b", Number: 81, Protocol: mesh.HTTP},
		},
	}.Sealed()
}

// fill sets most of the fields of a message, at random.
func fill(random *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if random.IntN(3) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("r1").MapKey(), mapValue(f))
		case f.IsList():
			l := m.Mutable(f).List()
			if f.Message() == nil {
				l.Append(scalar(random, f))
			} else {
				fill(random, l.AppendMutable().Message())
			}
		case f.Message() == nil:
			m.Set(f, scalar(random, f))
		case f.Message().FullName() == "google.protobuf.Duration":
			m.Set(f, protoreflect.ValueOfMessage(duration(random).ProtoReflect()))
		default:
			fill(random, m.Mutable(f).Message())
		}
	}
}

func duration(random *rand.Rand) proto.Message {
	lengths := []*durationpb.Duration{{}, {Nanos: 1_000_000}, {Seconds: 1}, {Seconds: 3600, Nanos: 5_000_000}}
	return lengths[random.IntN(len(lengths))]
}

func mapValue(f protoreflect.FieldDescriptor) protoreflect.Value {
	if f.MapValue().Kind() == protoreflect.StringKind {
		return protoreflect.ValueOfString("v")
	}
	return protoreflect.ValueOfUint32(100)
}

func scalar(random *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	numbers := []int64{0, 1, 3, 50, 100, 503, 1021}
	n := numbers[random.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(word(random, f))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(random.IntN(2) == 0)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(random.IntN(values.Len())).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 3)
	default:
		panic(fmt.Sprintf("no value for %s of kind %s", f.FullName(), f.Kind()))
	}
}

// word returns a string that fits the field's meaning often enough.
func word(random *rand.Rand, f protoreflect.FieldDescriptor) string {
	switch name := strings.ToLower(string(f.Name())); {
	case strings.HasSuffix(name, "certificate"), strings.HasSuffix(name, "certificates"), strings.HasSuffix(name, "key"):
		return "/etc/certs/file.pem"
	case name == "from", name == "to":
		return []string{"r1", "r2"}[random.IntN(2)]
	case name == "path":
		return "/"
	case name == "protocol":
		return "POST"
	default:
		return []string{"a", "b.example.com", "spiffe://a/b", "10.0.0.1"}[random.IntN(4)]
	}
}
