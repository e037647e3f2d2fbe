package precheck

// ink looks for something on a page that comes row by row. The page is divided into cells whose average is compared with the paper, which is
// the most frequent average: so the grain of a scanner averages out, and a stroke does not, however thin it is.
type ink struct {
	width, height int
	channels      int // 1, 3 or 4 values of 8 bits for each pixel; each is looked at by itself
	scale         int // pixels of a cell's side

	rows     int   // in the present row of cells
	done     int   // rows in all
	sums     []int // of the present row of cells
	averages [4][256]int
}

const (
	// inkCells is how many cells a side is divided into at most. On a page of A4 that is finer than a tenth of a millimetre.
	inkCells = 2000
	// inkContrast is how far ink is from the paper, of 255.
	inkContrast = 24
)

// specks is how many cells may differ on an empty page: dust. It is less than a dot of a small font takes on a page of that size.
func (k *ink) specks() int {
	cells := (k.width / k.scale) * (k.height / k.scale)
	return 2 + cells/500_000
}

func newInk(width, height, channels int) *ink {
	k := &ink{width: width, height: height, channels: channels, scale: 1 + (max(width, height)-1)/inkCells}
	k.sums = make([]int, (width+k.scale-1)/k.scale*channels)
	return k
}

// add takes the next row and reports whether there is ink by now.
func (k *ink) add(row []byte) bool {
	for x := range k.width {
		cell := x / k.scale * k.channels
		for c := range k.channels {
			k.sums[cell+c] += int(row[x*k.channels+c])
		}
	}
	k.rows++
	k.done++
	if k.rows < k.scale && k.done < k.height {
		return false
	}
	k.settle()
	return k.found()
}

// settle counts the cells of a row that is complete.
func (k *ink) settle() {
	last := (k.width - 1) / k.scale
	for cell := 0; cell <= last; cell++ {
		columns := k.scale
		if cell == last {
			columns = k.width - last*k.scale
		}
		for c := range k.channels {
			k.averages[c][k.sums[cell*k.channels+c]/(columns*k.rows)]++
		}
	}
	clear(k.sums)
	k.rows = 0
}

// found reports whether more cells differ from the paper than dust makes, whatever the paper's shade. Further rows can only add to them.
func (k *ink) found() bool {
	for c := range k.channels {
		all := 0
		for _, n := range k.averages[c] {
			all += n
		}
		// The best shade of paper is the one with the most cells around it.
		most, within := 0, 0
		for shade := range 256 + inkContrast {
			if shade < 256 {
				within += k.averages[c][shade]
			}
			if out := shade - 2*inkContrast - 1; out >= 0 {
				within -= k.averages[c][out]
			}
			most = max(most, within)
		}
		if all-most > k.specks() {
			return true
		}
	}
	return false
}
