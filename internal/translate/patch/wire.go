package patch

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields that are looked at without decoding the message.
const (
	listenerName             protowire.Number = 1
	listenerAddress          protowire.Number = 2
	listenerTrafficDirection protowire.Number = 16
	addressSocket            protowire.Number = 1
	addressPipe              protowire.Number = 2
	socketProtocol           protowire.Number = 1
	socketAddress            protowire.Number = 2
	socketPort               protowire.Number = 3
	pipePath                 protowire.Number = 1

	routesName         protowire.Number = 1
	routesVirtualHosts protowire.Number = 2
	virtualHostName    protowire.Number = 1
	virtualHostDomains protowire.Number = 2
)

// field is one field of an encoded message.
type field struct {
	number protowire.Number
	// whole is the field with its tag, body what is in it if it is a string or a message, value if it is a number.
	whole, body []byte
	value       uint64
}

// fields gives the fields of an encoded message until visit gives false. It stops at what is not well encoded.
func fields(b []byte, visit func(f field) bool) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return
		}
		f := field{number: number, whole: b[:n+size]}
		switch kind {
		case protowire.BytesType:
			f.body, _ = protowire.ConsumeBytes(b[n:])
		case protowire.VarintType:
			f.value, _ = protowire.ConsumeVarint(b[n:])
		}
		if !visit(f) {
			return
		}
		b = b[n+size:]
	}
}

// place is where a listener listens, as far as two must not be in one.
type place struct {
	protocol uint64
	address  string
	port     uint32
}

// listenerHead is what is known of a listener without decoding it.
type listenerHead struct {
	address []byte // encoded
	inbound bool
}

// port is where it listens, 0 for a socket.
func (h listenerHead) port() (port uint32) {
	fields(h.address, func(f field) bool {
		if f.number == addressSocket {
			fields(f.body, func(f field) bool {
				if f.number == socketPort {
					port = uint32(f.value)
				}
				return true
			})
		}
		return true
	})
	return port
}

const inboundDirection = 1 // envoy.config.core.v3.TrafficDirection INBOUND

func headOf(listener []byte) listenerHead {
	var h listenerHead
	fields(listener, func(f field) bool {
		switch f.number {
		case listenerAddress:
			h.address = f.body
		case listenerTrafficDirection:
			h.inbound = f.value == inboundDirection
		}
		return f.number < listenerTrafficDirection // fields are in the order of their numbers
	})
	return h
}

func placeOf(address []byte) place {
	var p place
	fields(address, func(f field) bool {
		switch f.number {
		case addressSocket:
			fields(f.body, func(f field) bool {
				switch f.number {
				case socketProtocol:
					p.protocol = f.value
				case socketAddress:
					p.address = string(f.body)
				case socketPort:
					p.port = uint32(f.value)
				}
				return true
			})
		case addressPipe:
			fields(f.body, func(f field) bool {
				if f.number == pipePath {
					p.address = string(f.body)
				}
				return true
			})
		}
		return true
	})
	return p
}
