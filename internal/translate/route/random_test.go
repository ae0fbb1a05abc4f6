package route

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// TestEnvoyAcceptsValidConfiguration generates random VirtualServices from all fields of the API.
// Envoy must accept each one that validation accepts. None, valid or not, may cause a panic of the
// translation or a duplicate domain.
func TestEnvoyAcceptsValidConfiguration(t *testing.T) {
	const tries, wanted = 3_000, 150
	random := rand.New(rand.NewPCG(1, 2))
	var valid envoy.Config
	for i := range tries {
		vs := randomVirtualService(random)
		name := fmt.Sprintf("random-%d", i)
		var objects []*config.Config
		if random.IntN(4) == 0 {
			objects = append(objects, object(t, "root", randomRoot(random, name)))
			vs.Hosts = nil
		}
		objects = append(objects, object(t, name, vs))
		w := newWorld(t, []byte(twoServices), nil, nil)
		allValid := true
		for _, c := range objects {
			w.builder.Apply(mesh.Event{Config: c})
			allValid = allValid && isValid(c)
		}
		r := NewGenerator().Named(w.view(), "9080")
		Unhonoured(vs)
		if allValid {
			valid.Routes = append(valid.Routes, decoded(t, r))
		}
	}
	t.Logf("%d of %d random VirtualServices are valid", len(valid.Routes), tries)
	if len(valid.Routes) < wanted {
		t.Errorf("only %d of %d random VirtualServices are valid, want %d to be of use",
			len(valid.Routes), tries, wanted)
	}
	envoy.Validate(t, valid)
}

func object(t *testing.T, name string, vs *networking.VirtualService) *config.Config {
	t.Helper()
	c, err := config.New(
		config.Meta{
			Key:     config.Key{Kind: api.VirtualService, Namespace: "default", Name: name},
			Created: time.Unix(1, 0),
		},
		vs,
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// randomRoot returns a VirtualService that delegates requests, and sets fields that the delegate
// may leave unset.
func randomRoot(r *rand.Rand, delegate string) *networking.VirtualService {
	route := new(networking.HTTPRoute)
	fill(r, route.ProtoReflect(), 0.15)
	route.Route, route.Redirect, route.DirectResponse = nil, nil, nil
	route.Delegate = &networking.Delegate{Name: delegate}
	return &networking.VirtualService{Hosts: []string{"reviews"}, Http: []*networking.HTTPRoute{route}}
}

func isValid(c *config.Config) bool {
	for _, p := range config.Validate(c) {
		if p.Severity == config.Error {
			return false
		}
	}
	return true
}

// randomVirtualService sets a few fields of one or two HTTP routes, and the ones without which no
// route is valid.
func randomVirtualService(r *rand.Rand) *networking.VirtualService {
	vs := &networking.VirtualService{Hosts: []string{"reviews"}}
	for range 1 + r.IntN(2) {
		route := new(networking.HTTPRoute)
		fill(r, route.ProtoReflect(), 0.15)
		route.Delegate = nil
		switch r.IntN(6) {
		case 0:
			route.Route, route.DirectResponse, route.Fault, route.Rewrite = nil, nil, nil, nil
			if route.Redirect == nil {
				route.Redirect = &networking.HTTPRedirect{Uri: "/"}
			}
		case 1:
			route.Route, route.Redirect, route.Fault, route.Rewrite = nil, nil, nil, nil
			route.DirectResponse = &networking.HTTPDirectResponse{Status: 200 + uint32(r.IntN(400))}
		default:
			route.Redirect, route.DirectResponse = nil, nil
			if len(route.Route) == 0 {
				route.Route = []*networking.HTTPRouteDestination{
					{Destination: &networking.Destination{Host: "reviews"}},
				}
			}
		}
		vs.Http = append(vs.Http, route)
	}
	return vs
}

// fill sets each field of a message with some probability, and each required one.
func fill(r *rand.Rand, m protoreflect.Message, likely float64) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		required := f.Name() == "destination" || f.Name() == "host" || f.Name() == "value" || f.Name() == "number"
		if !required && r.Float64() > likely || f.ContainingOneof() != nil && m.WhichOneof(f.ContainingOneof()) != nil {
			continue
		}
		switch {
		case f.IsMap():
			for range 1 + r.IntN(2) {
				v := m.Mutable(f).Map().NewValue()
				if f.MapValue().Message() != nil {
					fill(r, v.Message(), 0.7)
				} else {
					v = random(r, f.MapValue())
				}
				m.Mutable(f).Map().Set(
					protoreflect.ValueOfString(pick(r, "x-a", "x-b", "end-user", "Host", ":authority")).MapKey(),
					v,
				)
			}
		case f.IsList():
			for range 1 + r.IntN(2) {
				if f.Message() != nil {
					fill(r, m.Mutable(f).List().AppendMutable().Message(), 0.4)
				} else {
					m.Mutable(f).List().Append(random(r, f))
				}
			}
		case f.Message() != nil && f.Message().ParentFile().Package() != "google.protobuf":
			fill(r, m.Mutable(f).Message(), 0.5)
		default:
			m.Set(f, random(r, f))
		}
	}
}

// random returns a value of a scalar field that has a fair chance to be valid.
func random(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(f.Enum().Values().Len())))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(r.IntN(1_001)) / 10)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(pick(r, int32(0), 1, 50, 100, 503))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(pick(r, uint32(80), 443, 301, 302, 9080))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("body"))
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(wellKnown(r, f).ProtoReflect())
	}
	texts := map[protoreflect.Name][]string{
		"regex": {".*", "a+", "/x/[0-9]*", "(a|b)c?"}, "match": {"^/a/(.*)$"}, "rewrite": {`/\1`, "/b"},
		"uri": {"/", "/a/b"}, "prefix_rewrite": {"/", "/c"}, "scheme": {"http", "https"}, "prefix": {"/", "/a", "x"},
		"exact": {"/", "", "a", "GET"}, "retry_on": {"5xx", "503,reset", "unavailable,504"}, "grpc_status": {"UNAVAILABLE", "OK"},
		"allow_methods": {"GET", "*"}, "allow_headers": {"x-a"}, "expose_headers": {"x-b"}, "host": {"reviews", "a.example.com"},
		"remove": {"x-c", "X-D"}, "gateways": {"mesh"}, "authority": {"a.example.com"}, "subset": {"v1"},
	}
	if known := texts[f.Name()]; known != nil {
		return protoreflect.ValueOfString(pick(r, known...))
	}
	return protoreflect.ValueOfString(pick(r, "a", "b-c", "x.y", "100%%", "%REQ(x-a)%"))
}

func wellKnown(r *rand.Rand, f protoreflect.FieldDescriptor) proto.Message {
	switch f.Message().Name() {
	case "Duration":
		return durationpb.New(time.Duration(r.IntN(5)) * time.Second)
	case "BoolValue":
		return wrapperspb.Bool(r.IntN(2) == 0)
	default:
		return wrapperspb.UInt32(r.Uint32N(100))
	}
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
