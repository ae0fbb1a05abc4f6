package resource

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of DeltaDiscoveryResponse, DiscoveryResponse and Resource in
// envoy.service.discovery.v3, and of google.protobuf.Any.
const (
	sotwResources  = 2
	deltaResources = 2

	resourceVersion = 1
	resourceBody    = 2
	resourceName    = 3

	anyType  = 1
	anyValue = 2
)

// maxElement is the size in bytes up to which Resource.Element is set. Larger resources are sent from
// two places in memory, which costs little at that size.
const maxElement = 8 << 10

// versionLength is the length of a version (hash).
const versionLength = 16

// AppendDeltaHead appends the resource as an element of DeltaDiscoveryResponse.resources to b,
// without the bytes of the body, which must follow.
func (r *Resource) AppendDeltaHead(b []byte) []byte {
	return appendDeltaHead(b, r.Name, r.TypeURL, r.Version, len(r.Body))
}

// AppendSotWHead appends the resource as an element of DiscoveryResponse.resources to b, without
// the bytes of the body, which must follow.
func (r *Resource) AppendSotWHead(b []byte) []byte {
	return appendAnyHead(b, sotwResources, r.TypeURL, len(r.Body))
}

// appendDeltaHead appends an element of DeltaDiscoveryResponse.resources, without the size bytes of
// its body: that is the last field of a Resource, and an Any whose value is last.
func appendDeltaHead(b []byte, name, typeURL, version string, size int) []byte {
	b = appendLength(b, deltaResources, sizeResource(name, typeURL, len(version), size))
	b = appendString(b, resourceName, name)
	b = appendString(b, resourceVersion, version)
	return appendAnyHead(b, resourceBody, typeURL, size)
}

// elementHead returns how many bytes appendDeltaHead appends, for a version of versionLength, or 0 if
// the element with a body of size bytes is larger than maxElement.
func elementHead(name, typeURL string, size int) int {
	whole := sizeOf(deltaResources, sizeResource(name, typeURL, versionLength, size))
	if whole > maxElement {
		return 0
	}
	return whole - size
}

// sizeResource returns the size of a Resource with a version of the given length and a body of size
// bytes, without tag and length of its own field.
func sizeResource(name, typeURL string, version, size int) int {
	body := sizeAny(typeURL, size)
	return sizeOf(resourceName, len(name)) + sizeOf(resourceVersion, version) + sizeOf(resourceBody, body)
}

// appendAnyHead appends a field of type Any, without the size bytes of its value.
func appendAnyHead(b []byte, field protowire.Number, typeURL string, size int) []byte {
	b = appendLength(b, field, sizeAny(typeURL, size))
	return appendLength(appendString(b, anyType, typeURL), anyValue, size)
}

// sizeAny returns the size of an Any with a value of size bytes, without tag and length of its own
// field.
func sizeAny(typeURL string, size int) int {
	return sizeOf(anyType, len(typeURL)) + sizeOf(anyValue, size)
}

// sizeOf returns the size of a field that holds n bytes, with tag and length.
func sizeOf(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// appendLength appends the tag and length of a field that holds n bytes.
func appendLength(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
}

// appendString appends a string field, even if s is "".
func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
