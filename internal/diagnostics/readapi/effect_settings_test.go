package readapi

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// TestSettingsWithFirstValues describes fields that protobuf does not encode, or encodes as a
// message: they are settings nevertheless.
func TestSettingsWithFirstValues(t *testing.T) {
	for _, c := range []struct {
		kind, spec string
		want       []string
	}{
		{"DestinationRule", `{host: web, trafficPolicy: {tls: {mode: DISABLE}}}`, []string{
			"host: web", "trafficPolicy: {tls: {mode: DISABLE}}",
		}},
		{"DestinationRule", `{host: web, trafficPolicy: {loadBalancer: {simple: RANDOM, localityLbSetting: {enabled: false}},
  connectionPool: {tcp: {connectTimeout: 5s}}, outlierDetection: {consecutive5xxErrors: 0}}}`, []string{
			"host: web", "trafficPolicy: {loadBalancer: {simple: RANDOM; localityLbSetting: {enabled: false}}; " +
				"connectionPool: {tcp: {connectTimeout: 5s}}; outlierDetection: {consecutive5xxErrors: 0}}",
		}},
		{"Sidecar", `{outboundTrafficPolicy: {mode: REGISTRY_ONLY}}`, []string{"outboundTrafficPolicy: {mode: REGISTRY_ONLY}"}},
		{"PeerAuthentication", `{selector: {matchLabels: {app: web}}, mtls: {}}`, []string{
			"selector: {matchLabels: app=web}", "mtls: {}",
		}},
		{"AuthorizationPolicy", `{}`, []string{"action: ALLOW"}},
	} {
		version := "networking.istio.io/v1"
		if c.kind == "PeerAuthentication" || c.kind == "AuthorizationPolicy" {
			version = "security.istio.io/v1"
		}
		text := "apiVersion: " + version + "\nkind: " + c.kind + "\nmetadata: {name: x, namespace: shop}\nspec: " + c.spec
		for _, d := range decode.Manifest("x.yaml", []byte(text)) {
			if d.Config == nil {
				t.Fatalf("%s %s: %v", c.kind, c.spec, d.Problems)
			}
			if got := describeFields(d.Config.Spec.(proto.Message).ProtoReflect()); !slices.Equal(got, c.want) {
				t.Errorf("%s %s is described as %q, want %q", c.kind, c.spec, got, c.want)
			}
		}
	}
}

// TestWrappedValues describes each message that stands for one value.
func TestWrappedValues(t *testing.T) {
	for _, c := range []struct {
		message proto.Message
		want    string
	}{
		{durationpb.New(5 * time.Second), "5s"},
		{wrapperspb.Bool(true), "true"},
		{wrapperspb.Int32(-1), "-1"},
		{wrapperspb.Int64(-2), "-2"},
		{wrapperspb.UInt32(1), "1"},
		{wrapperspb.UInt64(2), "2"},
		{wrapperspb.Float(0.5), "0.5"},
		{wrapperspb.Double(0.25), "0.25"},
		{wrapperspb.String("x"), "x"},
	} {
		if got, ok := describeWrapped(c.message.ProtoReflect()); got != c.want || !ok {
			t.Errorf("%T is described as %q, want %q", c.message, got, c.want)
		}
	}
	if got, ok := describeWrapped(new(wrapperspb.BoolValue).ProtoReflect()); got != "false" || !ok {
		t.Errorf("an empty BoolValue is described as %q", got)
	}
	if got, ok := describeWrapped(new(emptypb.Empty).ProtoReflect()); ok {
		t.Errorf("Empty stands for the value %q", got)
	}
}
