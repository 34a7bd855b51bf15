"""What o200k_base knows of scripts, packed: zlib in base85; `python -m evals.script_tables` makes this.

First a bit for each character up to U+FFFF: whether it is one token. Then a bit for each block of 64:
whether its other characters are two tokens. Then a byte for each letter of `scripts.SCRIPTS`: its groups
as a first and as a second letter of common pairs.
"""

from __future__ import annotations

PACKED = (
    "c-rk+4~$&JdH-g1c0IQoFtcwrzO`{ZZ@s{oKVjGQHMmyF+x5jc8mGDSfnwLFxwu5Ns;HqtEg_}7*}b*7;Iui6Q9_e8XM++-(n3^4p^E68?NCtL6b"
    "CCb5=x;7kthi<D5Q>Z@x6ZEytjM1cMkO(q>2*H-M*bSZ|0lt?{B`Dw_(^_7+k{R>S=fV%7O3Qb=Unj{O<aTPhIo*heEJPp0ErcfL6IU`ueLhfN8b"
    "$;p0tIdCy9KiFPx<unxo7AI^p0SaknCmDbF2&qXbN@s|f)I`svtB+}#7wHWx#@YU0Qws(%YacX(>BmmY|TmqnA0^3)F;aUjSvbotW|G^6Q`~I8$_"
    "4Wbm7ycf+!SaJUXT$K!sUJSP1#W)@wey3<i+KO|$&cR-kIaPQ@WS|ie`)s22TtC(8Tu?s!1u>rd@MZk@^S1BGa-Ip>TiDX$6q@>-VaWg=c~nM`kt"
    "6R{>0T0{TGfuf9NOJ|Eae}3jO}p@7^1_`%#!dHNUX+<^PyH6CQu+YB&6jB4iHjd+FJ0u4}&UZPf70so8Kk3=_{?muj($8WQsY$oXn;7Wqy$Pltsc"
    "KQ$IU>;}!SdO3a)dBZPT`SL%9pIHGjW8w5SAWZx+NF*uh%tI1nui=s9W?%Z=sehUd=RSXcGice6zK^m_Z=k=c=C+)E@0kmKjaqsj_M9y6mg`9DGZ"
    ">HXK&f`P$39j8vCWajPf5NpN!FgF4QEpk*>Q&=y5}NDT=H+5W}b|mk2<GTB8k^My^F^i=!2FD)O>)n%m1H;`@fLh^SSUgr<P~VATFOGFzJQ=#K?d"
    "46keuxUfb$thY*k>g}&j!;e0t?&X+f%9Qe@Afm<%U@k9N)@4kO4To4RC`|I1E{)lL<`{0KY*Ji)k&mU-fu4c6ko?pMJhf5ns=s#eMy+l~U11_LH)"
    "yPP=!CJ@~IAINir=9?qa)HiO1oieKSFRLOTV^+p4v1Au{hh2F1T!+lu0AUEUsFyWy|7v2FuA`-NzRjr6&E!u6pv&PHVn*AxL<VO@t-E|l%HZZr_H"
    "{A!9?%a)9k~a{u=AM?fxfc?o;n#NnnEYU+XeQ1appXxu+;1ghmoU6R}<p(nA@7nJAf|l&DI}l(G)qyTN?uLbK-Ppl7fyS<m3U=J-`r953TFN(OFB"
    "N;o{)fY(fgC`p*85}k&lkc7!2qlcQmok`gPPb2hwb6t}SRdMcgAXjIxpS=qpPZW?H5jcj3qBJQL16>>JzBs;<1AFLG_D5@nc7A(U^-cvn!E?{Nyr"
    "Zaq|LF3MnZQ_%-L2#W$s(MroIPoam%eXT-Xh<sD<*jHdfzx;zUd!#HXogw>9=lP2{U3%bE?kZ2quSD!5~kp+L+%L@NJ(odyVz#(wIbWvpFKLt4xA"
    "u1T@ZGpA=vOSFA2c#}iJ|*8?;=6f9!7n0+S;#5X?5_P&)(tlD~vi3e+&WT7-#xamIQ$rJlIhbt^8#aIzoke-mAMf%W4N^TTU9)=Q#6J%)AkAzg9M"
    "zLNbea1_;4gSU4-Qe3*nOU%0O|cDy2@Bud7>L2)KI<QbVIg}39Ic5a9K)o<d2I<Gce3Y7`yf2V#k-FsCJToXGa0CFBFf6<m4Q{#PBefE>uuK@`cc"
    "^hoG(C)F)4)8y%DON@EB7Ptu#V9Wf)W)Pdk&x-ng*fvyX!q1Pro2=bx6)8xbu$ze&0T%N|4pE4H6o>j4zgiNQun$h$HrBQIk;219np2r;y0NUC7l"
    "Brd`-9gG*9>bY!4!<bAQBwhmM@^|tX#}5}7rmV0Eg!6f&VYIdW%CqJ@@<BfU3X%X;l5fw%Ydt!=LaF&=j0F(|W9Ro2-|?-6^nM<D#bkip>cA9e?9"
    "d0>RXg39#K<Arle;nl!H}cb*Cr+BvobXlHQn3G9=;G=g`3_AwqRsVh~cTOoeh$RrnuuoOesh{@zK6ORro5P-KxTmOt(76?3jYIDRjRGI*=i%j*<v"
    "0%e#}q8<66tK}_P-!Oq@9f2tl>bl1H!U)lyvSHn$itTB-w$9x+gnG9(UyX+u-tEg5KghQRrZ^(E%uR?U<O;D7WN5+z6qf+}O7|)^vRoF&N6r9L}5"
    "RAp51QFLQ*&aXih5NsG_=<n9mnk&a5XP0FfD^C{hYlh;91K?kU(k1@sz+MSs&_!M2{IGFh6Xy^a4?Lh<_nAt<d8-AYtOM*dxlgai+#fShh`wlxN`"
    ">ku|W!Sm`wXH)j$b&Y$Wteo`f_mGEkKP$o)h`p$xR6Fh=7TZk>I^{QlK+<%=<v(&RzbA(By@4iKzE<|%yRd^L(L5c6q&r0}1SzcMu;uVB%_fItA3"
    "S+hYcOxn@+s}q5+LYns`1d#70-$7WF&Jt`40!pv}18`H)TG<Bf{#XbWP)uMjzU4c~$44$dQoMQU;Jed3QVG_8fCNWn6SoP^=Ig|)aJ)~={p}-(%q"
    "NGp=j5wkddXV&r}z}q`=d25wIH`9$%{^QBdMY3uoZ%ns(&y4t)U^d;!loLyjke27v8f!x4#Ec`Q`^7h4p((U1P_gLE84=0N>1Oi+qkkiQIvfh1a^"
    "Xcokn4;)-jxqP-hC%f^d!omF6f6a!Aaph%_bB;(b<iAjrvWoe0Wr6STF$jSme5_e48Qf81%{Z}#gswOZA{s;=y-sFs|8@Dv$9D~&)?>rB|3WDn&G"
    "RE8{v7`_<NB?~oj+Grp0X*sWrlBnkM;UrDDn@ro(jrJ4ZXE*E5Q+lRLC(AyidKnpNas}S;%o_9Et|#_GD2fU=wwmgzP=z;iCo@cy(E&v04{pxw_m"
    "?N#bcLmn7`BP0<=E!SV_5O{mKPy%Oy%WPRQLIIhe;1(Ktp&GpsA@SSR!?IGSM#163(yAVOu$Jj@kbSWr(SjlS(gP^g*dK4j_gayK7#i4KeWQvMNK"
    "I9fB8kPd72CQ+gROh+=zKU1wPHtxc^M4|9o+6hi46D97!1ttQ@k}hG=CGjiav^&*7Gtyw^2_Z75bd*`@NB9WaTVfq%behmG72WkL(5_ynCDt<d)G"
    "c|%6CFKE*a$|)43g}s%U?R<m-tkz8PZET%UaZXp2w0VmQ0L5C2hDS+1-$N!?i^5+LlAab}XTKBJEb$QcbmxB^LP-lyar5D0``8xL43^h|kDy278u"
    "TL4sY-0FevxC`b$%j-04eE@5!3Q}f$0yem0`SFzLfb=fE~Ko?8QkH%eDdL4<*{gjNTjIj5YI!(MjnmuO8EDQ_PVk!PgL|r`QF8~4bC3Jn&_Cfx79"
    "^ee8T0K!`rB0z~+BSm=SyJ6pA~%ioNv`iL!X@U^+Cj7RjQI;$YGXlUxJ0a6P1_5as1SYmv169z!Lgeq0M}CkJHP6jFH0-xS4vtNy{crta)SRH%Fj"
    "L7o_T#!?xEMXFRuBqZ|v}ISUOmR6CE4V(oga6D`7Zx@pVK=O^0jeZX>H-SLvb?zoY+5=Pv_VWqL0D4##@qxBAno#~$1L+UzI3m6*Hcm9gje`=-af"
    "_1f>pPUUd>;wb41&qc&w!FQ`{^mG|E7IbEyn#*j|dUL+IMSDFuuQNKpbwk(n8`rOKC##lL9jY4By|nKxV;Rx9rpq;|Y%G_x#(%A$rZ?!Afm*y`is"
    "f*Sje}Chp($G1O)#$Qfhb(#>(46r1@{}y6$}24vfKB4uMWO$dcI%RTKHD$5r4Jt>%OL%w##_)>9a^%ixfth_3rWYx_g-RFbC9!J-G|~yr=WavoBM"
    "cYkg~t5oI*o>d1PBTc*SM=8dbpk-Ep12%_{(A-*Ygo*@;_+P`KNY;8yb>$+N2yIhZ*gHbvG$fGzb@Q4-nTEph66dfEdM|l-eUR75-s0A1{BfBVB("
    "|E6m)q#Or*|}d1ZK&<QGW09y6iOvKLRdhqh~$bIFP91dGVg1DH43_>nA`l<u!hX<-}nGQ)yWYX$v@(Bb8->&^@|*5Q5V`<`I%Iw^)%<C--7@{P{r"
    "*w+DYT5DmC0o=jW)ayEW~Z%Q{za3?vx^@j0x9{uj@}k(%nZnXcjt)nEtxe4+}K)tL+$<aZzw)buW74!jJH+;2eVbkkMvQ-<;~F)ZkWP798XDYpEr"
    "NW`-_YAj#624@s)JJ&{R&ArxWXmXvA<xKuI$|7P8g4VW<oQ&2+FRJAlE3wkB+QSA5UZW9h88%}qQe5aV5_mssUe5em=+%?$LbDqFq2jBge`G`R-F"
    "zkNfDEr8isUQcab9z*4h%q!^q<SpAu0?k3t%GoJ6Ev#aB4I#a<GePHLfc+Vq*Ybzi$_=B-LHjO5XWvd7w$}Vo`qdM!nSeId7kNn?;K$<l=?Jl{&r"
    "mLlb1^B@{)2CI-<vHd>z1PHj&4$VfRt+VVMWqjDB!qM&NDo4#JdF!OW);D~`+@4g593hi-l2VGhI?QkPTT3>u(vk4bm47+STzr5e-=q$lmrVXvyD"
    "!k8v&FT!v*@kF*lt-**W$i$p)zA?7O~@bK<c-9w$kbQ7g8ow<x%G;uMg&h^T&2NpJ^+jP)kT4MkQGoj2(?x>NkWTOWaahlzzUjYTZ}Z}U51Vmc4S"
    "zF&RRGmlv~kuEm>sG{j#j7D-k?D3fkllgDNlyK0io+=jXoE96^7mj0b+(O9RIquanuWWqHQj%R;!cOTNOJYoNg;_Wxh8mnCo"
)
