package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// Response is a DiscoveryResponse or DeltaDiscoveryResponse. It points into the bytes that it was
// read from.
type Response struct {
	TypeURL, Version, Nonce []byte
	Resources               []Entry
	// Removed is removed_resources (delta).
	Removed [][]byte
}

// Entry is one resource of a Response: its version (delta) and its body without the Any around it.
type Entry struct{ Version, Body []byte }

// Parse reads a response; the previous content of the Response is discarded.
func (r *Response) Parse(b []byte, delta bool) error {
	*r = Response{Resources: r.Resources[:0], Removed: r.Removed[:0]}
	var inner error
	err := EachField(b, func(f protowire.Number, v []byte, _ uint64) {
		switch f {
		case 1: // version_info, system_version_info
			r.Version = v
		case 2:
			e, err := parseEntry(v, delta)
			if err != nil {
				inner = err
			}
			r.Resources = append(r.Resources, e)
		case 4:
			r.TypeURL = v
		case 5:
			r.Nonce = v
		case 6: // in SotW that is control_plane
			if delta {
				r.Removed = append(r.Removed, v)
			}
		}
	})
	return errors.Join(err, inner)
}

// Release lets go of the bytes, and of lists that grew large.
func (r *Response) Release() {
	const keep = 64
	if cap(r.Resources) > keep {
		r.Resources = nil
	}
	if cap(r.Removed) > keep {
		r.Removed = nil
	}
	clear(r.Resources[:cap(r.Resources)])
	clear(r.Removed[:cap(r.Removed)])
}

// parseEntry reads an Any, in delta the Resource around it too.
func parseEntry(b []byte, delta bool) (e Entry, err error) {
	wrapped := b
	if delta {
		wrapped = nil
		err = EachField(b, func(f protowire.Number, v []byte, _ uint64) {
			switch f {
			case 1:
				e.Version = v
			case 2:
				wrapped = v
			}
		})
		if err != nil {
			return e, err
		}
	}
	e.Body, err = bytesOf(wrapped, 2)
	return e, err
}
