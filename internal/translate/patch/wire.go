package patch

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields that are read without decoding the message.
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
	// whole is the field with its tag, body its content if it is a string or a message, value its
	// content if it is a number.
	whole, body []byte
	value       uint64
}

// forEachField calls visit for each field of an encoded message until visit returns false. It stops
// at a malformed field. The body of a length-delimited field and the value of a varint are set;
// fields of other wire types have only their whole encoding. All of these share b's memory.
func forEachField(b []byte, visit func(f field) bool) {
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

// bindAddress is the address of a listener; two listeners must not have the same one.
type bindAddress struct {
	protocol uint64
	address  string
	port     uint32
}

// listenerHead is the part of a listener that is read without decoding it.
type listenerHead struct {
	address []byte // encoded
	inbound bool
}

// port returns the port of the address, or 0 for a Unix domain socket or an invalid encoding.
func (h listenerHead) port() (port uint32) {
	forEachField(h.address, func(f field) bool {
		if f.number == addressSocket {
			forEachField(f.body, func(f field) bool {
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

// headOf returns the address and direction of an encoded Listener. It assumes that fields are
// encoded in order, and stops after the direction.
func headOf(listener []byte) listenerHead {
	var h listenerHead
	forEachField(listener, func(f field) bool {
		switch f.number {
		case listenerAddress:
			h.address = f.body
		case listenerTrafficDirection:
			h.inbound = f.value == inboundDirection
		}
		// Fields are encoded in the order of their numbers.
		return f.number < listenerTrafficDirection
	})
	return h
}

// bindAddressOf returns the protocol, address and port of an encoded Address, or the path of a Unix
// domain socket as address. It returns the zero value for other addresses.
func bindAddressOf(address []byte) bindAddress {
	var p bindAddress
	forEachField(address, func(f field) bool {
		switch f.number {
		case addressSocket:
			forEachField(f.body, func(f field) bool {
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
			forEachField(f.body, func(f field) bool {
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
