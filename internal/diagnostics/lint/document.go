package lint

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// Document is an object as it is written in a file. Kinds that the control plane does not read, and
// objects with mistakes, are included.
type Document struct {
	Key config.Key
	// Body is the object in JSON, and Source the text of its file.
	Body, Source []byte
	// File is the name of the file.
	File string

	position func(field string) (line, column int)
}

// Position returns the line and column, from 1, of a field, or of its nearest parent that exists.
// For an empty field it is that of the object.
func (d Document) Position(field string) (line, column int) { return d.position(field) }

// documents returns the objects that were read, in their order. Their Source is the text of the
// file; of equal names, a file precedes a file of the cluster.
func (r *analysisRun) documents() []Document {
	sources := map[string][]byte{}
	for _, f := range append(r.options.Cluster, r.options.Files...) {
		sources[f.Name] = f.Text
	}
	list := make([]Document, 0, len(r.objects))
	for _, o := range r.objects {
		list = append(list, Document{
			Key:    o.key,
			Body:   o.body,
			Source: sources[o.file],
			File:   o.file,
			position: func(field string) (line, column int) {
				return r.locators[o.file].Position(o.document, o.within, field)
			},
		})
	}
	return list
}

// FileDocument returns the first document of a file, which need not be an object. Body is empty if
// it cannot be parsed.
func FileDocument(f File) Document {
	l := decode.NewLocator(f.Name, f.Text)
	return Document{
		Body:     decode.Documents(f.Name, f.Text)[1],
		Source:   f.Text,
		File:     f.Name,
		position: func(field string) (line, column int) { return l.Position(1, "", field) },
	}
}
