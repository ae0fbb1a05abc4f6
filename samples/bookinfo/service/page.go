package service

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
)

//go:embed pages/*.html
var pageFiles embed.FS

func parsePages() (*template.Template, error) {
	// stars makes something to range over of a number as JSON has it.
	stars := func(n any) []struct{} {
		count, _ := n.(float64)
		return make([]struct{}, min(max(int(count), 0), 5))
	}
	pages, err := template.New("").Funcs(template.FuncMap{"stars": stars}).ParseFS(pageFiles, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("parsing the pages: %w", err)
	}
	return pages, nil
}

// pageView is what the product page shows. Details and Reviews are as the services answered, or hold "error".
type pageView struct {
	Title       string
	Description template.HTML
	User        string
	Details     any
	Reviews     any
}

func (s *productpage) index(w http.ResponseWriter, _ *http.Request) {
	s.show(w, "index.html", nil)
}

// page shows the one product. It is 200 also when a service failed: the page says so in its place.
func (s *productpage) page(w http.ResponseWriter, r *http.Request) {
	p := products()[0]
	view := pageView{Title: p.Title, Description: template.HTML(p.DescriptionHTML), User: userOf(r)}
	_, view.Details = s.getDetails(r, "0")
	_, view.Reviews = s.getReviews(r, "0")
	s.show(w, "productpage.html", view)
}

func (s *productpage) show(w http.ResponseWriter, page string, view any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = s.pages.ExecuteTemplate(w, page, view) // the client may have gone
}
