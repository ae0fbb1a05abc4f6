package inject

import (
	"fmt"
	"reflect"
	"strconv"
)

// defaults are what encoding a decoded object writes though nobody had written it: "resources": {} of a container, "divisor": "0". They
// are put in where a patch against the decoded object is to fit, and taken out again where nobody has filled them. A place is known
// by names, for what is in lists may move.
type defaults map[string]any

// fill adds to an object, as the user wrote it, the defaults that decoding and encoding it gave, and remembers each by its place.
func (d defaults) fill(written, encoded any, place string) {
	switch w := written.(type) {
	case map[string]any:
		e, _ := encoded.(map[string]any)
		for k, v := range e {
			if _, there := w[k]; !there {
				w[k] = v
				d[place+"/"+k] = v
			} else {
				d.fill(w[k], v, place+"/"+k)
			}
		}
	case []any:
		e, _ := encoded.([]any)
		for i := range min(len(w), len(e)) {
			d.fill(w[i], e[i], place+"/"+known(w[i], i))
		}
	}
}

// drop takes those defaults out again which are still as fill put them in.
func (d defaults) drop(object any, place string) {
	switch o := object.(type) {
	case map[string]any:
		for k, v := range o {
			here := place + "/" + k
			if was, put := d[here]; put && reflect.DeepEqual(was, v) {
				delete(o, k)
				continue
			}
			d.drop(v, here)
		}
	case []any:
		for i, v := range o {
			d.drop(v, place+"/"+known(v, i))
		}
	}
}

// known gives the part of a place that names an element of a list: its name, or its index if it has none.
func known(element any, index int) string {
	if m, ok := element.(map[string]any); ok && m["name"] != nil {
		return fmt.Sprintf("[%v]", m["name"])
	}
	return strconv.Itoa(index)
}
