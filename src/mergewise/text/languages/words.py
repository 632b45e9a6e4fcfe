"""Words by which a language is told: articles, pronouns, prepositions, conjunctions and forms of "to be", question words last.

Languages that share their script with no other here need none. Letters tell some languages too.
"""

from __future__ import annotations

from collections.abc import Mapping

LATIN: Mapping[str, str] = {
    "en": """
        the of and to in is was for that with as on by at from are this it be or an were which have has had not but
        they their his her its you we he she can will would there been if when what how who where why does do did
        many much
        """,
    "de": """
        der die das und in den von zu mit ist im für auf des dem nicht ein eine als auch es an werden aus er hat
        dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis
        mehr durch man sein wurde wenn kann können ihre sich diese dieser was wer wo wann warum welche welcher
        welches wurden gibt ich wir wie viele
        """,
    "fr": """
        le la les de des du et à un une en est que qui dans pour par sur au avec ne pas ce il sont plus se aux ou
        cette été ses son sa mais comme elle nous vous ont ces leur leurs être avoir fait même où si peut deux tout
        dont quel quelle quels quelles comment pourquoi quand combien était votre vos c'est d'un d'une qu'il l'on
        n'est
        """,
    "es": """
        el la los las de del y que en un una es por con para se no al lo su como más o pero sus le ya fue este ha
        esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante uno ni contra otros
        ese eso ante ellos qué quién cuál cuándo dónde cómo cuánto cuántos cuántas cuáles son está están era ser
        tiene puede
        """,
    "it": """
        il la le lo gli i di del della dei delle e che in un una è per con non si da al come più ma anche sono nel
        nella alla ha dal questo questa suo sua o se ai ed tra era stato essere dopo quando chi dove cosa quale
        quali perché quanto quanti degli dalla sulla nelle alle viene può molto loro ci anni
        """,
    "pt": """
        o a os as de do da dos das e que em um uma é para com não se no na por mais como mas foi ao ele à seu sua ou
        ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois sem mesmo aos ter seus
        quem nas esse eles são qual quais onde quanto quantos porque pode você
        """,
    "nl": """
        de het een en van in is dat op te zijn met voor niet aan er die om als ook bij door maar naar dan nog was
        uit wordt worden over kan tot of hij ze heeft deze hebben meer wat wie waar wanneer waarom hoe hoeveel welke
        werd zich onder tegen zo geen u je we ik haar hun dit
        """,
    "sv": """
        och i att det som en på är av för med till den har de inte om ett var från men vid kan så eller när nu efter
        under sig hur han hon vi du jag denna detta där blev skulle mot mycket alla vad vem vilken vilket vilka
        varför många också sedan
        """,
    "da": """
        og i at det som en på er af for med til den har de ikke om et var fra men ved kan så eller når efter under
        sig hvordan han hun vi du jeg denne dette blev skulle mod meget alle hvad hvem hvilken hvilket hvilke
        hvorfor hvor mange også siden blive være efter deres
        """,
    "no": """
        og i å det som en på er av for med til den har de ikke om et var fra men ved kan så eller når etter under
        seg hvordan han hun vi du jeg denne dette ble skulle mot mye alle hva hvem hvilken hvilket hvilke hvorfor
        hvor mange også siden bli være deres eller
        """,
    "fi": """
        ja on ei se että oli hän mutta ovat kuin myös joka tai kun niin sen sitä jos olla mitä ne voi vain jo ollut
        hänen jonka sekä nyt siitä kuka missä milloin miksi miten kuinka mikä monta tämä tämän ovat kanssa mukaan
        jälkeen ennen näin ole olivat niiden kaikki
        """,
    "pl": """
        i w na z się nie do jest to że o jak po co tak za od przez dla ale czy już tylko może są był być jego jej
        ich oraz który która które tym ten ta te gdzie kiedy dlaczego kto ile jaki jaka jakie która pod przed także
        została został było były ze tego
        """,
    "cs": """
        a v na se je že o s z do to i k ve za pro jako ale po by jeho od byl jsou která který které při tak nebo jen
        už podle být může také si co kdo kde kdy proč jak kolik jaký jaká jaké byla bylo aby než této jejich ze
        """,
    "sk": """
        a v na sa je že o s z do to i k vo za pre ako ale po by jeho od bol sú ktorá ktorý ktoré pri tak alebo len
        už podľa byť môže tiež si čo kto kde kedy prečo koľko aký aká aké bola bolo aby než tejto ich zo
        """,
    "hu": """
        a az és hogy nem is egy meg volt ez már de csak ha mint vagy van el még ki azt kell sem lehet be minden után
        ezt között azonban amely ami aki mi mit hol mikor miért hogyan hány melyik milyen lett majd voltak szerint
        által több nagy
        """,
    "ro": """
        și de la în a cu pe nu că este din se un o pentru mai care ce sau al ca au fost sunt prin dar era fi ai am
        dintre după până acest această ale lui lor unui unei când unde cine cum cât câte câți care despre între
        """,
    "tr": """
        ve bir bu da de için ile olarak çok daha en gibi olan kadar sonra ne o ise ya ki her olduğu veya ama var yok
        mi mı mu mü değil nasıl neden kim nerede hangi kaç zaman tarafından göre önce içinde iki arasında üzerinde
        büyük ilk aynı nedir kimdir kimin nereye vardır
        """,
    "vi": """
        và của là có được trong cho các một những không với người này đã khi từ đó như ra vào năm tại về đến cũng để
        nhiều sự theo bị trên nhưng sau ông bà nào gì đâu ai sao bao nhiêu thế hay hoặc nó họ phải còn thì mà
        """,
    "id": """
        yang dan di dari ini untuk dengan tidak pada dalam adalah itu oleh sebagai juga ke karena atau akan dapat
        telah ada bisa mereka saya kami ia seperti lebih saat bahwa para antara apa siapa mana kapan mengapa
        bagaimana berapa tahun secara
        """,
    "ca": """
        el la els les de del i que en un una és per amb no es al als com més o però són ha va ser seu seva entre
        quan també aquest aquesta fins sobre sense des hi què qui quin quina quan on com per què molt estat dels amb
        li ho
        """,
    "hr": """
        i u je na se da su za od s a kao koji koja koje o ne bi iz te do što ili po nije biti bio bila sam samo može
        više kako kada gdje tko zašto koliko njegov nakon između prema godine kojeg će bilo
        """,
    "et": """
        ja on ei et ka see oli kui või mis ta selle oma aga siis nii mida välja olid veel kes kus millal miks kuidas
        mitu palju nende pärast kuid seda olema pole
        """,
    "lt": """
        ir yra kad iš į su buvo ne už ar kaip o bet tai apie po jo prie nuo per taip dar tik kurie kuris kas kur
        kada kodėl kiek jų bus šis ši arba buvo
        """,
}
CYRILLIC: Mapping[str, str] = {
    "ru": """
        и в не на что с он как это по но из у от за для так же его было был была были быть только или если они мы вы
        она к о при их также который которая которые чем во до со когда где кто почему сколько какой какая какие
        какое каким ли бы этого может после между
        """,
    "uk": """
        і в не на що з він як це по але із у від за для так та його було був була були бути тільки або якщо вони ми
        ви вона до про їх також який яка які чим коли де хто чому скільки яке яким чи б цього може після між є й
        """,
    "bg": """
        и в не на че с той как това по но от за да се са е ще като или ако те ние вие тя към при им също който която
        които кога къде кой защо колко какъв каква какво може след между беше си му
        """,
    "sr": """
        и у не на да с он како ово по али из од за је се су ће као или ако они ми ви она ка при њих такође који која
        које када где ко зашто колико какав може после између био била било
        """,
}
ARABIC: Mapping[str, str] = {
    "ar": """
        في من على إلى أن هذا هذه التي الذي كان كانت عن مع ما لا أو ذلك بين كل بعد قبل قد لم هو هي متى أين كيف لماذا
        كم ماذا ثم حيث عند منذ
        """,
    "fa": """
        در به از که این را با است برای آن یک خود تا کرد بر هم نیز شد شده بود ها می او ما چه چرا کجا کی چگونه چند
        کدام یا اما اگر های
        """,
    "ur": """
        کے کی میں ہے اور سے کا کو اس نے یہ پر کہ ایک ہیں تھا تھی بھی جو ہو گیا کیا کب کہاں کون کیوں کیسے کتنے وہ ان
        لیے
        """,
}
DEVANAGARI: Mapping[str, str] = {
    "hi": """
        के में की है और से का को इस ने यह पर कि एक हैं था थी भी जो हो गया क्या कब कहाँ कौन क्यों कैसे कितने वह उन
        लिए नहीं तो ही किस कितनी
        """,
    "mr": """
        आहे आणि या च्या ने ला हे ते की एक होते होता होती मध्ये तर पण काय कधी कुठे कोण का कसे किती त्या आहेत नाही व
        हा ही
        """,
    "ne": """छ र को मा ले लाई यो त्यो पनि हो भने गरेको छन् थियो एक के कहिले कहाँ को किन कसरी कति गर्न भएको तथा""",
}
MARKS: Mapping[str, str] = {
    "cs": "ěřů",
    "da": "æø",
    "de": "äöüß",
    "es": "ñ¿¡",
    "et": "õ",
    "fi": "äö",
    "fr": "œçèêîûë",
    "hr": "đćž",
    "hu": "őűö",
    "lt": "ėųįū",
    "no": "æø",
    "pl": "łąęśżźń",
    "pt": "ãõç",
    "ro": "țșăâ",
    "sk": "ľĺŕôť",
    "sv": "åäö",
    "tr": "ığş",
    "vi": "đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
    "uk": "іїєґ",
    "sr": "јљњћђџ",
    "fa": "پچژگ",
    "ur": "ٹڈڑےں",
}
"""Letters that few languages of a script have."""
