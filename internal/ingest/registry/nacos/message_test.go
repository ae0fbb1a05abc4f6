package nacos

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// payloadType returns the type of Payload, as Nacos publishes it.
func payloadType(t testing.TB) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const text, message = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	headers := field("headers", 7, message, ".Metadata.HeadersEntry")
	headers.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("nacos_grpc_service.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{
				Name:  proto.String("Metadata"),
				Field: []*descriptorpb.FieldDescriptorProto{field("type", 3, text, ""), field("clientIp", 8, text, ""), headers},
				NestedType: []*descriptorpb.DescriptorProto{{
					Name: proto.String("HeadersEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
					Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, text, ""), field("value", 2, text, "")},
				}},
			},
			{Name: proto.String("Any"), Field: []*descriptorpb.FieldDescriptorProto{
				field("type_url", 1, text, ""), field("value", 2, descriptorpb.FieldDescriptorProto_TYPE_BYTES, ""),
			}},
			{Name: proto.String("Payload"), Field: []*descriptorpb.FieldDescriptorProto{field("metadata", 2, message, ".Metadata"), field("body", 3, message, ".Any")}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Payload")
}

// TestCodec decodes with Protobuf what the codec encodes, and the other way round.
func TestCodec(t *testing.T) {
	encoded, err := codec{}.Marshal(&payload{kind: "X", headers: map[string]string{"accessToken": "secret"}, body: []byte(`{"a":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(payloadType(t))
	if err := proto.Unmarshal(encoded, m); err != nil {
		t.Fatal(err)
	}
	const want = `metadata:{type:"X" headers:{key:"accessToken" value:"secret"}} body:{value:"{\"a\":1}"}`
	if got := strings.ReplaceAll(m.String(), "  ", " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	again, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got payload
	if err := (codec{}).Unmarshal(again, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(payload{kind: "X", body: []byte(`{"a":1}`)}, got, cmp.AllowUnexported(payload{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"\xff", "\x12\x05a", "\x1a\x02\x12\x7f"} {
		if err := (codec{}).Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// documented returns an answer in testdata, which has the form of Nacos' clients.
func documented(t testing.TB) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/subscribe.json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestConvert(t *testing.T) {
	r, err := parseResponse(&payload{kind: "SubscribeServiceResponse", body: documented(t)})
	if err != nil {
		t.Fatal(err)
	}
	k := r.ServiceInfo.key()
	settings := DefaultSettings()
	got, err := settings.convert(k, r.ServiceInfo.Hosts)
	if err == nil || err.Error() != "instance 192.0.2.3#8080#HZ has protocol HTTPS and port 443, and others have HTTP and 80" {
		t.Errorf("error %v", err)
	}
	port := map[string]uint32{"http-80": 8080}
	want := &adapter.Service{
		ServiceKey: adapter.ServiceKey{Namespace: "default", Name: "DEFAULT_GROUP/orders"}, Hosts: []string{"orders.service.nacos"},
		Ports: []adapter.Port{{Name: "http-80", Number: 80, Protocol: "HTTP"}},
		Instances: []adapter.Instance{
			{
				ID: "192.0.2.1#8080#DEFAULT#DEFAULT_GROUP@@orders", Address: "192.0.2.1", Ports: port, Weight: 250, Locality: "eu/a",
				Labels: map[string]string{"version": "v1", "cluster": "DEFAULT"}, ServiceAccount: "orders",
			},
			{
				ID: "192.0.2.2#8080#HZ#DEFAULT_GROUP@@orders", Address: "192.0.2.2", Ports: port, Weight: 100,
				Labels: map[string]string{"cluster": "HZ"}, Health: adapter.Unhealthy,
			},
			{
				ID: "192.0.2.3#8080#HZ", Address: "192.0.2.3", Ports: port, Labels: map[string]string{"cluster": "HZ", "secure": "true"},
				Health: adapter.Draining, Weight: 100,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	dubbo, err := settings.convert(keyOf("blue", "providers:com.example.Demo::"), []instance{
		{IP: "192.0.2.1", Port: 20881, Enabled: true, Healthy: true, Weight: 1, Metadata: map[string]string{"protocol": "dubbo"}},
	})
	if err != nil || dubbo.Hosts[0] != "providers-com.example.demo.blue.service.nacos" ||
		dubbo.Ports[0] != (adapter.Port{Name: "tcp-20880", Number: 20880, Protocol: "TCP"}) {
		t.Errorf("%+v, %v", dubbo, err)
	}
}

func TestMalformedMessages(t *testing.T) {
	for body, want := range map[string]string{
		"[]":                                    "is not JSON of Nacos",
		"{}":                                    "Nacos answered with code 0",
		`{"resultCode":500,"message":"broken"}`: "Nacos answered with code 500: broken",
		`{"resultCode":500,"errorCode":403}`:    "Nacos answered with code 403",
	} {
		if _, err := parseResponse(&payload{body: []byte(body)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", body, err, want)
		}
	}
	if _, err := parsePush(&payload{kind: notifyRequest, body: []byte("[]")}); err == nil {
		t.Error("a push that is no object is accepted")
	}
	now := time.Unix(1000, 0)
	for body, want := range map[string]accessToken{
		`{"accessToken":"a","tokenTtl":100}`: {"a", now.Add(90 * time.Second)},
		`{"accessToken":"a"}`:                {"a", time.Time{}},
		`{}`:                                 {},
		`[]`:                                 {},
	} {
		if got, err := parseLogin([]byte(body), now); got != want || (err != nil) != (want == accessToken{}) {
			t.Errorf("%s: %v, %v; want %v", body, got, err, want)
		}
	}
}

// FuzzMessages decodes an arbitrary message. Each service has one port, and instances with valid
// ports.
func FuzzMessages(f *testing.F) {
	encoded, err := codec{}.Marshal(&payload{kind: "SubscribeServiceResponse", body: documented(f)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		var p payload
		if (codec{}).Unmarshal(data, &p) != nil {
			return
		}
		_, _ = parsePush(&p)
		_, _ = parseLogin(p.body, time.Unix(0, 0))
		r, err := parseResponse(&p)
		if err != nil {
			return
		}
		settings := DefaultSettings()
		s, _ := settings.convert(r.ServiceInfo.key(), r.ServiceInfo.Hosts)
		if s == nil {
			return
		}
		if len(s.Ports) != 1 || slices.ContainsFunc(s.Instances, func(i adapter.Instance) bool {
			n := i.Ports[s.Ports[0].Name]
			return n == 0 || n > 65535 || i.ID == "" || i.Weight > 65535
		}) {
			t.Errorf("service %+v", s)
		}
		adapter.NewEntries(Name, *s)
	})
}
