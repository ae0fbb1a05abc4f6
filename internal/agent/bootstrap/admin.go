package bootstrap

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// newAdmin returns the admin interface at proxyAdminPort. It is bound to loopback only, because it
// allows everything.
func newAdmin(in Input, f family) *bootstrapv3.Admin {
	return &bootstrapv3.Admin{
		Address: socketAddress(f.localhost, uint32(in.Config.GetProxyAdminPort())),
		// The agent must be able to query an overloaded Envoy.
		IgnoreGlobalConnLimit: true,
	}
}

// socketAddress returns a TCP address. host must be an IP address, or a name that the cluster
// resolves.
func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// mustPack encodes a message of this package as Any. It panics on failure, which is impossible for
// such messages.
func mustPack(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic("bootstrap: pack: " + err.Error())
	}
	return a
}
