package resource

import "weak"

// Diff is the difference between two sets.
type Diff struct {
	// Updated are resources that are new or have another version, sorted by name.
	Updated []*Resource
	// Removed are the names of deleted resources, sorted.
	Removed []string
}

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d.Updated) == 0 && len(d.Removed) == 0 }

// Compare returns the difference from old to new, by names and versions, each list sorted by name.
// A nil set is empty. New resources are updates, resources of equal version are not. The result may
// be shared and must not be changed.
func Compare(old, new *Set) Diff {
	switch {
	case old == new:
		return Diff{}
	case old != nil && new != nil && new.origin == weak.Make(old):
		return new.step
	}
	var d Diff
	a, b := position{chunks: old.allChunks()}, position{chunks: new.allChunks()}
	for skipShared(&a, &b); !a.atEnd() || !b.atEnd(); skipShared(&a, &b) {
		switch {
		case b.atEnd() || !a.atEnd() && a.resource().Name < b.resource().Name:
			d.Removed = append(d.Removed, a.resource().Name)
			a.advance()
		case a.atEnd() || b.resource().Name < a.resource().Name:
			d.Updated = append(d.Updated, b.resource())
			b.advance()
		default:
			if r := b.resource(); r != a.resource() && r.Version != a.resource().Version {
				d.Updated = append(d.Updated, r)
			}
			a.advance()
			b.advance()
		}
	}
	return d
}

// position is a place in the chunks of a set.
type position struct {
	chunks []chunk // from the one of the present resource on
	at     int     // its index in the first of them
}

// atEnd reports whether there is no resource left.
func (p *position) atEnd() bool { return len(p.chunks) == 0 }

// resource returns the present resource. The position must not be at the end.
func (p *position) resource() *Resource { return p.chunks[0][p.at] }

// advance moves to the next resource.
func (p *position) advance() {
	if p.at++; p.at == len(p.chunks[0]) {
		p.chunks, p.at = p.chunks[1:], 0
	}
}

// skipShared moves both positions behind the chunks that begin at them and that both sets share.
func skipShared(a, b *position) {
	for a.at == 0 && b.at == 0 && !a.atEnd() && !b.atEnd() && &a.chunks[0][0] == &b.chunks[0][0] {
		a.chunks, b.chunks = a.chunks[1:], b.chunks[1:]
	}
}
