package precheck

// root is the dictionary at the root of the page tree.
func (p *pdf) root() (pdfDict, bool) {
	catalog, ok := p.dict(p.trailer["Root"])
	if !ok {
		return nil, false
	}
	return p.dict(catalog["Pages"])
}

func (p *pdf) dict(object any) (pdfDict, bool) {
	value, ok := p.resolve(object)
	d, isDict := value.(pdfDict)
	return d, ok && isDict
}

// morePagesThan reports whether there are more pages than that. The count that the file gives is enough for no; for yes they are counted,
// since a count may be wrong.
func (p *pdf) morePagesThan(limit int) bool {
	root, ok := p.root()
	if !ok {
		return false
	}
	if count, isNumber := root["Count"].(int64); isNumber && count <= int64(limit) {
		return false
	}
	n := 0
	whole := p.walk(root, func(pdfDict) bool {
		n++
		return n <= limit
	})
	return whole && n > limit
}

// walk calls visit with each page in order until it says that it has enough. Pages have what they inherit. It is false when the tree cannot be
// read.
func (p *pdf) walk(root pdfDict, visit func(page pdfDict) bool) bool {
	nodes := 0
	seen := map[int64]bool{}
	var into func(node pdfDict, depth int) (more, ok bool)
	into = func(node pdfDict, depth int) (more, ok bool) {
		if nodes++; nodes > pdfNodes || depth > pdfDepth {
			return false, false
		}
		list, isTree := node["Kids"]
		if !isTree {
			return visit(node), true
		}
		value, ok := p.resolve(list)
		kids, isArray := value.(pdfArray)
		if !ok || !isArray {
			return false, false
		}
		for _, kid := range kids {
			if ref, isRef := kid.(pdfRef); isRef {
				if seen[ref.number] {
					return false, false // a circle, or a page that stands in two places
				}
				seen[ref.number] = true
			}
			child, ok := p.dict(kid)
			if !ok {
				return false, false
			}
			for _, name := range [...]pdfName{"Resources"} {
				if _, own := child[name]; !own && node[name] != nil {
					child[name] = node[name]
				}
			}
			if more, ok := into(child, depth+1); !more || !ok {
				return more, ok
			}
		}
		return true, true
	}
	_, ok := into(root, 0)
	return ok
}
