package bootstrap

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// admin is Envoy's own interface. It can do anything, so it is on loopback only.
func admin(in Input, f family) *bootstrapv3.Admin {
	return &bootstrapv3.Admin{
		Address: socketAddress(f.localhost, uint32(in.Config.GetProxyAdminPort())),
		// The agent must be able to ask an overloaded Envoy how it is.
		IgnoreGlobalConnLimit: true,
	}
}

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       host,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// packed puts a message that this package made into an Any; that cannot fail.
func packed(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic("bootstrap: pack: " + err.Error())
	}
	return a
}
